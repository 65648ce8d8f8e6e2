"""``celery -A app fair web``: workers, queues, keys, dead letters and partitions in a browser.

One thread asks the workers, once a second at the most, however many browsers look; everything that
is shown of them is computed from its last answer, once. Pages are made on the server, by templates
that escape whatever they are given, so that a task, a key or a queue may be called anything. While
a page is open, the server sends it its changing part again over server-sent events, and a script of
a hundred lines puts what differs in its place. The page is whole without that script.

Nothing is changed by looking. A change is a POST: of somebody who may (`visitors`), from a page of
this server (`forms`), shown before with what it will do, and written into the log of actions before
it is done (`actions`).

From the bottom up::

    snapshot.py    all workers at one moment, and their queues, summed up
    history.py     what queues did at each of the last ticks, for the lines
    collector.py   its reader of the last minutes: the thread that asks the workers
    log_reader.py, log_collector.py  that of the last hours: the thread that reads the event log
    sentences.py   why a figure is what it is
    visitors.py    who looks, and who may change something: loopback, passwords, a proxy's header
    passwords.py   the file of passwords
    forms.py       what a browser sends to change something
    actions.py     who changed what, and when
    site.py        what pages have in common: the app, the collector, the templates
    pages/         a page, or a few, each; `routes.py` says where they are
    orders.py      dead letters that are replayed or purged, in the background
    changes.py     what a change of a queue or a key will do, doing it, and one step back
    guard.py       headers of every answer, and who gets in
    asgi.py        the application
    command.py, password_command.py  the commands

`static/` has uPlot 1.6.32 (https://github.com/leeoniya/uPlot, MIT; uPlot.LICENSE), which draws the
lines, as it is on npm.
"""
