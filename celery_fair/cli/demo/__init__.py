"""``celery fair demo``: how long a password mail waits behind bulk work, measured from outside.

First Celery's own worker consumes, then a fair one. The command's own process only watches. A
worker process publishes (the in-memory broker reaches no further than its process), consumes, and
leaves a record in a trace of each message published and each task started; all figures are computed
from this trace, not from what a worker says of itself::

    command.py        the options
    demonstration.py  both runs, as text and as JSON
    scenario.py       what is published and when, and how long it waited
    broker.py         a place on a broker: checked before, cleaned after
    worker.py         the worker process: told, watched, stopped
    tasks.py          its app, its tasks, and what it publishes
"""
