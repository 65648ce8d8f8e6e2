"""What is consumed: each queue's channel, subscription, window and buffer, on each kind of broker.

A `feed.Feed` is one queue at the worker. Its `feed.Source`, one a connection, makes it and knows
its broker: `amqp`, `redis`, `virtual`, `sqs`; `sources` says which. `pulled` are those that are
asked for each message, and in `keyed` those that are shared by key. `delivery` is the message,
`reports` what queues report, `open_feeds` who they are. `consumer` is what Celery sees of them;
`lost_queues` sees to what the broker takes away, `held` to what waits for too long.
"""
