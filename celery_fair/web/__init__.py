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
    collector.py   the thread that asks the workers, and what queues did at each of the last ticks
    looks.py       what is asked for when somebody looks, once for all who do
    guard.py       headers of every answer; who gets in, and who may change something: whoever is on
                   this machine, or whom a proxy's header names
    forms.py       what a browser sends to change something
    actions.py     who changed what, and when
    orders.py      dead letters that are replayed or purged, in the background
    site.py        what pages have in common: the app, the collector, the templates
    pages/         what fills in each page, and does what its forms say
    asgi.py        the application: which pages there are, and their updates
    server.py      the program that serves the pages

`templates/` has a page each, and in `parts/` what changes of it while somebody looks; `why.html`
says why a figure is what it is, `effects.html` what a change will do.

`static/` has uPlot 1.6.32 (https://github.com/leeoniya/uPlot, MIT; uPlot.LICENSE), which draws the
lines, as it is on npm.
"""
