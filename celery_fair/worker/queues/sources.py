"""Where a worker's messages come from: one source per connection, which makes the feeds.

Chosen by what the transport can do. Anything unusual takes the plain way, `VirtualSource`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import amqp

from celery_fair.brokers.broker import AmqpBroker, RedisBroker, SqsBroker, broker_of
from celery_fair.brokers.lanes import Lanes
from celery_fair.core.window import RefillMeter
from celery_fair.worker.amqp_io.channels import Channels, SharedChannel
from celery_fair.worker.amqp_io.reader import DrainingReader, read_any_properties
from celery_fair.worker.amqp_io.writer import AckWriter
from celery_fair.worker.queues.amqp import AmqpFeed, PulledAmqpFeed, RawDeliveries
from celery_fair.worker.queues.feed import Feed
from celery_fair.worker.queues.keyed.lane_watch import LaneWatch
from celery_fair.worker.queues.keyed.lanes import LanesFeed
from celery_fair.worker.queues.keyed.redis import KeyedRedisFeed
from celery_fair.worker.queues.redis import RedisSource
from celery_fair.worker.queues.source import Source
from celery_fair.worker.queues.virtual import VirtualSource
from celery_fair.worker.wake_up import WakeUp

Read = Callable[[Any, Any], tuple[RawDeliveries | None, Callable[[], object]]]
"""Given py-amqp's connection and the event loop, if there is one, returns who hands over deliveries
that are not decoded, if anybody does, and the loop's callback for the socket."""


class AmqpSource(Source):
    """An AMQP broker: a subscription for each queue, on a channel of `Channels`.

    Arguments:
        soon: asks for the dispatcher to run soon.
        read: says how the socket is read.
    """

    asks = False

    def __init__(
        self,
        connection: Any,
        hub: Any,
        meter: RefillMeter,
        soon: Callable[[], object],
        read: Read,
    ) -> None:
        self._connection = connection
        self._channels = Channels(connection)
        self._meter = meter
        broker = connection.connection
        read_any_properties(broker)
        self._frames, reader = read(broker, hub)
        if hub:
            hub.add_reader(broker.sock, reader)
        self._acks = AckWriter(broker, soon)

    def feed(self, **options: Any) -> Feed:
        channel = self._channels.take(options["queue"].name)
        frames = None if isinstance(channel, SharedChannel) else self._frames
        return AmqpFeed(
            channel=channel, acks=self._acks, meter=self._meter, frames=frames, **options
        )

    def pulled(self, **options: Any) -> Feed:
        channel = self._channels.take(options["queue"].name)
        return PulledAmqpFeed(channel=channel, acks=self._acks, **options)

    def keyed(self, **options: Any) -> Feed:
        queue, parts = options["queue"], options["parts"]
        connect = partial(self._connection.clone, heartbeat=0)
        lanes, front = (Lanes(connect, queue, parts.keyed.lanes) for _ in range(2))
        watch = LaneWatch(lanes, front, options.pop("sorter"))
        channel = self._channels.take(queue.name)
        return LanesFeed(channel=channel, acks=self._acks, watch=watch, **options)

    def flush(self, more: bool = False) -> None:
        self._acks.flush(more)

    def last(self) -> None:
        self._acks.write_through()

    def confirm(self, message: Any) -> None:
        if not message.feed.asks_if_open():  # the answer follows the acknowledgement
            raise amqp.RecoverableChannelError("its channel was closed meanwhile")


def read_plainly(broker: Any, hub: Any) -> tuple[None, DrainingReader]:
    """Have py-amqp read and decode; see `Read`."""
    return None, DrainingReader(broker, hub)


def source_for(
    connection: Any,
    hub: Any,
    meter: RefillMeter,
    wake_up: WakeUp,
    interval: float,
    read: Read,
) -> Source:
    """Return the source that fits a connection's transport and the worker's loop.

    Arguments:
        wake_up: asks for the dispatcher to run.
        interval: seconds between two looks at the most, where no message wakes the worker.
        read: says how AMQP's socket is read.
    """
    broker = broker_of(connection)
    if isinstance(broker, AmqpBroker):
        return AmqpSource(connection, hub, meter, wake_up.soon, read)
    if isinstance(broker, RedisBroker):
        return RedisSource(connection, hub, wake_up.soon, wake_up.at, interval, KeyedRedisFeed)
    if isinstance(broker, SqsBroker) and hub:
        from celery_fair.worker.queues.sqs import SqsSource

        return SqsSource(connection)
    return VirtualSource(connection)
