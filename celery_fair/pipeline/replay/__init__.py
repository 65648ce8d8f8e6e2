"""What would have been: a trace replayed with other quanta, leashes, caps and concurrency.

::

    scenario.py   what is supposed
    machine.py    the worker's own scheduler on a virtual clock
    fanout.py     many scenarios at once, by Spark, and what messages waited in each
"""
