"""The worker's side: from the broker's delivery to the pool's slot.

A message's way through the files here::

    feed.py        one queue: its channel, subscription, window and buffer
    delivery.py    a message that tells its feed when it is settled
    dispatcher.py  the main loop: a slot is free, choose a queue, hand its message to Celery
    in_flight.py   what the pool works on, and the news that a slot is free
    reader.py      the socket, drained in one go (event loop)
    consumer.py    what Celery expects of ``consumer.task_consumer``
    step.py        the bootstep that wires them
"""
