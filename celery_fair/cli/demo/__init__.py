"""``celery fair demo``: real workers on a known backlog, and what can be measured from outside.

The command's own process only watches. A worker process publishes (the in-memory broker reaches no
further than its process), consumes, and leaves a record on a tape for each message published and
each task started; all figures are computed from these tapes, not from what a worker says of
itself. There are two demonstrations: how long a password mail waits behind bulk work, first with
Celery's own worker and then with a fair one, and the shares of ten queues. What they share::

    command.py      the options
    demonstrate.py  a demonstration from its introduction to its page
    screen.py       what is shown while it goes, line by line
    live.py         … or drawn in place (rich)
    broker.py       a place on a broker: checked before, cleaned after
    order.py        what the worker process is told
    app.py          the Celery app of the worker process
    tape.py         the records that pass between the two processes
    worker.py       the worker process: started, watched, stopped

and in ``waits/`` and ``shares/`` each: what is published (scenario, workload), the tasks of the
worker process (tasks), what was measured (waits, shares), the same as text, picture and page.
"""
