"""The worker's side: from the broker's delivery to the pool's slot, and back.

A message's way
---------------
::

    queues/amqp           (or redis, virtual, sqs) it comes into its queue's window
    queues/reports           the queue reports it
    wake_up               wakes
    dispatch/dispatcher   runs, and asks
    core/chooser          whose turn it is
    launch/requests       Celery is given the message, and a request is made of it
    launch/launcher       which gets a slot,
    launch/admission      if it may start; what must not be repeated is acknowledged first
    launch/pool           has it; at its end the slot is free, and the dispatcher is woken

Wings import downhill: ``partitions``, ``step``, ``control``, ``session``, ``process``,
``fast_path``, ``observe``, ``dispatch``, ``launch``, ``queues``, ``letters``, ``amqp_io``,
``patches``, ``wake_up``. Of ``fast_path`` `process` alone knows: without it everything goes the
plain way. What is in ``observe`` changes nothing; ``control`` has it asked, and has changed what is
told.

Two lifetimes
-------------
`process.Parts` lives as long as the process, `session.Session` as long as a connection to the
broker. Both are wired by constructors alone, in the order in which the parts need each other:
nothing is given to an object later, and `patches` is the one file that replaces anything in Celery,
kombu or py-amqp.

===================== =============================================== =========================
state                 owner                                           changed on
===================== =============================================== =========================
credits, held queues  `core.chooser.Chooser`, the process             the loop
pauses, leashes       `dispatch.gates.Gates`, the process             the loop
what runs             `launch.in_flight.InFlight`, the process        the loop; ends on any thread
what ended, unpriced  `dispatch.prices.Runtimes`, the process         any thread
starts, by queue      `dispatch.prices.Served`, the process           the loop; read anywhere
waits, held, letters  `observe.figures.Observed`, the process        any thread
the offered message   `launch.requests.Handover`, the process         the loop
what was claimed      `launch.admission.Claims`, the process          the loop
who is asked to run   `wake_up.WakeUp`, the process                   any thread
queues consumed now   `queues.open_feeds.OpenFeeds`, the process      the loop; read anywhere
fencing tokens        `process.Parts.tokens`, the process             the loop
buffers, windows      `queues.feed.Feed`, the connection              the loop
what was reported     `queues.reports.Reports`, the connection        the loop
subscriptions         `queues.consumer.FairTaskConsumer`, connection  the loop
what is launched      `launch.launcher.Launcher`, the connection      the loop
unsent receipts       `amqp_io.writer.AckWriter`, the connection      any thread
the dead letters' way `brokers.mover.Mover`, the connection           one caller at a time
===================== =============================================== =========================

*The loop* is the thread, or greenlet, that owns the broker's channels: Celery's event loop, or its
synchronous one. `InFlight.remove` takes a request out once, whoever calls it first.
"""
