"""From a message that was chosen to the pool, and back.

`requests` has Celery make a request of it; `launcher` gives it a slot, if `admission` lets it
start; `in_flight` is what the `pool` works on, and how much more it takes.
"""
