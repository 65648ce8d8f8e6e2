"""``celery -A app fair status``, ``top``, ``explain``, ``set``, ``pause``, ``resume``.

Each sends running workers one of the remote-control commands of
`celery_fair.worker.observe.control`, and shows what they answer::

    options.py     what all commands have in common: whom to ask, how long, in which form to show it
    workers.py     the workers as a command asks them
    crowd.py       the workers as they are asked again and again
    answers.py     what came back, sorted by what it means
    figures.py     a queue's row: each figure as text
    trend.py       how a queue's share has developed; starts per second
    tables.py      the rows of workers, for a width
    keys.py        the key that ends `top`
    status.py, top.py, explain.py, set.py, pause.py  the commands
"""
