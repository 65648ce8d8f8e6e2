"""``celery -A app fair dead-letters list``, ``show``, ``replay``, ``purge``.

::

    group.py         the group
    access.py        the queue of the app that a command was given
    filters.py       which letters are meant: by reason, task, queue and time
    moment.py        a time or an age, as a word of a command line
    browsing.py      list
    showing.py       show
    provable.py      which letters the event log proves not to have started
    body.py          what can be read of a message's body
    ordering.py      replay, purge: what is asked first, and what is done then
    reporting.py     what became of them
    interruption.py  Ctrl-C in the middle: the letter in hand is finished
"""
