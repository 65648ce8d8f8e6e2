"""The worker's side: from the broker's delivery to the pool's slot.

A message's way through the files here::

    feed.py        one queue: its channel, subscription, window and buffer, in three kinds:
                   amqp_feed.py, virtual_feed.py, pulled.py
    delivery.py    a message that tells its feed when it is settled
    dispatcher.py  the main loop: a slot is free, choose a queue, hand its message to Celery
    fast_requests.py  the usual message's request, without Celery's handler and strategy
    fast_tracer.py what runs it, without most of Celery's tracer
    boarding.py    a request's last steps: admitted, acknowledged, handed to the pool
    in_flight.py   what the pool works on, and the news that a slot is free; relay.py to threads
    source.py      a broker connection, which makes the feeds; redis_source.py for Redis
    cost.py        what a message costs; runtimes.py: the time it takes, settled when it has ended
    sizing.py      the windows, kept at their planned sizes
    wakeup.py      how the dispatcher is called: soon, later, from other threads
    reader.py      the socket, drained in one go (event loop); loop.py without one
    frames.py      deliveries, put together undecoded; undecoded.py decodes late, by properties.py
    ack_writer.py  acknowledgements, written together
    lost_queues.py queues that the broker takes away; refused.py refuses us, tried again
    once.py        what may start, by claims.py; what must not: dead_letters.py, by mover.py
    recorder.py    all that happens, for the event log; heartbeat.py of a pool's process
    consumer.py    what Celery expects of ``consumer.task_consumer``
    desk.py        what an operator asks and tells; control.py as remote-control commands
    metrics.py     the same for Prometheus; observed.py waits and holds; metrics_server.py
    shield.py      whatever a message contains, the worker lives
    fair_worker.py all of these, wired; step.py the bootstep
"""
