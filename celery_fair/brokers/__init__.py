"""All that is known of each broker, beside consuming.

::

    broker.py           which it is
    refused.py          whether a worker may run on it
    mover.py            a message that is held moves to the dead letters, or back; move.lua on Redis
    depths.py           how many messages wait
    amqp_letters.py     the dead letters on RabbitMQ,
    redis_letters.py    on Redis; replay.lua moves a letter in one step,
    virtual_letters.py  and on kombu's other emulated brokers
    payload.py          a message as kombu's emulated brokers store it
    redis.py            kombu's queues as they are in Redis
    keyed/              such a queue shared by key
"""
