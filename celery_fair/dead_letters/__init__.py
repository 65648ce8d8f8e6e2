"""Dead letters: what they are, how they are looked into, replayed and removed.

::

    death.py          where a message goes that must not start, and how it looks there
    letter.py         a dead letter as it was found; anything may be missing from it, or be wrong
    letter_queue.py   what can be done with the queue, whatever the broker
    plan.py           what is to be done with which letters, and what became of them
    replay.py         that it is done, once
"""
