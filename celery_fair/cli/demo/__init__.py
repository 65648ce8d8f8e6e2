"""``celery fair demo``: real workers on a known backlog, and what can be measured from outside.

The command's own process only watches. A worker process publishes (the in-memory broker reaches no
further than its process), consumes, and leaves a record in a trace of each message published and
each task started; all figures are computed from these traces, not from what a worker says of
itself. There are two demonstrations: how long a password mail waits behind bulk work, first with
Celery's own worker and then with a fair one, and the shares of ten queues. What they share::

    command.py        the options
    demonstration.py  a demonstration from its introduction to its page
    broker.py         a place on a broker: checked before, cleaned after
    order.py          what the worker process is told
    app.py            the Celery app of the worker process
    trace.py          the records that pass between the two processes
    worker.py         the worker process: started, watched, stopped

and in ``waits/`` and ``shares/`` each: what is published (scenario, workload), the tasks of the
worker process (tasks), what was measured (run), how it is drawn (plot) and what is said of it
(demonstration).
"""
