"""All that is known of each broker, beside consuming.

::

    broker.py           which it is, and whether a worker may run on it
    mover.py            a message that is held moves to the dead letters, or back; move.lua on Redis
    amqp_mover.py       the same on RabbitMQ
    depths.py           how many messages wait
    amqp_letters.py     the dead letters on RabbitMQ,
    virtual_letters.py  and on kombu's emulated brokers; on Redis replay.lua moves one in one step
    payload.py          a message as kombu's emulated brokers store it
    redis.py            kombu's queues as they are in Redis
    full_redis.py       what workers may do there when it is full
    keyed/              such a queue shared by key
    lanes.py            a queue shared by key on RabbitMQ
    kept.py             what was set live, and holds for workers that start later
"""
