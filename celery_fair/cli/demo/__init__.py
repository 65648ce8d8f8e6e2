"""``celery fair demo``: a real worker on a known backlog, and what each queue got of it.

The command's own process only watches. A worker process publishes the backlog (the in-memory
broker reaches no further than its process), consumes it, and leaves a record on a tape for each
start of a task; shares are computed from that tape, not from what the scheduler says of itself::

    workload.py    how many queues, their quanta, what is published, when to stop
    published.py   the figures that others got from the same workload
    broker.py      a place on a broker: checked before, cleaned after
    app.py         the Celery app of the worker process
    tape.py        the records that pass between the two processes
    child.py       the worker process: started, watched, stopped
    run.py         one workload from its start to its shares
    shares.py      what each queue got, and whether that is fair
    report.py      the result as plain data, for ``--json``
    table.py       the result as rows of text
    plain.py       … shown line by line
    live.py        … shown live (rich)
    chart.py       shares over time as an SVG
    page.py        the HTML file
    command.py     the options
"""
