"""Dead letters looked into, replayed and removed, without losing or reordering the others.

::

    letter.py         a dead letter as it was found; anything may be missing from it, or be wrong
    letter_queue.py   what can be done with the queue, whatever the broker
    amqp_queue.py     RabbitMQ
    redis_queue.py    Redis; replay.lua moves a letter in one step
    virtual_queue.py  kombu's other emulated brokers
    payload.py        a message as kombu's emulated brokers store it
    opened.py         the queue of an app
    census.py         which letters there are, and which of them are the same message
    replay.py         what may be replayed, and that it is replayed once
"""
