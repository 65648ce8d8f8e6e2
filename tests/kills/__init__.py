"""What must hold of queues that are shared by key, whoever is killed, and however often.

A `siege` has publishers (`publisher`) and workers at work on a broker, kills at random them, the
broker and the store of the keys, and starts others in their place. In the end all is quiet, two
workers do what is left, and it is told where every message went (`tests.faults.accounting`), how
many tasks of a capped key ran at once (`caps`), and for how long a key, or a lane, had to wait.
"""
