"""From a message that was chosen to the pool, and back.

`handover` has Celery make a request of it, by `requests`; `boarding` gives it a slot, if
`admission` lets it start; `in_flight` is what the pool works on, `slots` how much more it takes.
What does not start goes by `custody` and `burial`, moved by `brokers.mover`.
"""
