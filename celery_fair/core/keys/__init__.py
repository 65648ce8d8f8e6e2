"""Shares among keys: whose a message is, whose turn it is, and where a key's backlog waits.

::

    fair_key    whose a message is
    tags        whose turn it is: start-time fair queueing
    elsewhere   what other workers served of the same keys
    front       the choice between a queue's front and its lanes
    lanes       which lanes have messages, and whose, as far as a worker knows; which to look at
    sketch      which keys come most often
"""
