"""Groups of workers that share partitions: who consumes which, and until when he may.

::

    membership   what each member does, and what it may rely on
    assignment   which member consumes which partition
    tenure       what a member may consume now, by its own clock; whether another's runs as it does
"""
