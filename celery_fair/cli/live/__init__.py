"""``celery -A app fair status``, ``top``, ``explain``, ``set``, ``pause``, ``resume``.

Each sends running workers one of the remote-control commands of
`celery_fair.worker.observe.control`, and shows what they answer::

    options.py     what all commands have in common: whom to ask, how long, in which form to show it
    workers.py     the workers as a command asks them
    answers.py     what came back, sorted by what it means
    assignments.py ``option=value``, checked before anybody is told
    figures.py     a queue's row: each figure as text
    trend.py       how a queue's share has developed; starts per second
    tables.py      the rows of a worker, for a width
    screen.py      where they are shown: live (rich, in picture.py), as lines, as JSON
    keys.py        the key that ends `top`
    status_and_explain.py, top.py, set_and_pause.py  the commands
"""
