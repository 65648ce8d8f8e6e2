"""A queue that is shared by key, on each kind of broker.

`redis` asks for messages, and `places` are those of capped keys. `amqp` chooses among a front and
lanes, and `lane_watch` knows which of these have messages.
"""
