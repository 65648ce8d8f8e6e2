"""Where a worker's messages come from: one source per connection, which makes the feeds.

Chosen by what the transport can do. Anything unusual takes the plain way, `VirtualSource`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

import amqp

from celery_fair.brokers.broker import AmqpBroker, RedisBroker, SqsBroker, broker_of
from celery_fair.brokers.lanes import Lanes
from celery_fair.core.window import RefillMeter
from celery_fair.worker.queues.amqp_feed import AmqpFeed, RawDeliveries
from celery_fair.worker.queues.feed import Feed
from celery_fair.worker.queues.keyed.lane_watch import LaneWatch
from celery_fair.worker.queues.keyed.lanes import LanesFeed
from celery_fair.worker.queues.keyed.shared import SharedLanesFeed
from celery_fair.worker.queues.pulled import PulledAmqpFeed, PulledVirtualFeed
from celery_fair.worker.queues.virtual_feed import VirtualFeed
from celery_fair.worker.wire.ack_writer import AckWriter
from celery_fair.worker.wire.any_properties import read_any_properties
from celery_fair.worker.wire.channels import Channels, SharedChannel
from celery_fair.worker.wire.reader import DrainingReader

__all__ = ["AmqpSource", "Read", "Source", "VirtualSource", "read_plainly", "source_for"]

Read = Callable[[Any, Any], tuple[RawDeliveries | None, Callable[[], object]]]
"""Given py-amqp's connection and the event loop, if there is one, returns who hands over deliveries
that are not decoded, if anybody does, and the loop's callback for the socket."""


class Source(ABC):
    """One broker connection as the dispatcher's supplier."""

    asks = True
    """Whether messages are asked for between two choices; what was chosen starts before that."""

    @abstractmethod
    def feed(self, **options: Any) -> Feed:
        """Make a feed; `options` are those of `Feed`, less the channel."""

    @abstractmethod
    def pulled(self, **options: Any) -> Feed:
        """Make a feed that asks for each message; `options` are those of `Pulled` besides."""

    def keyed(self, **options: Any) -> Feed:
        """Make a feed that is shared by key; `options` are those of `KeyedFeed`, and who sorts.

        Only where the broker `shares_by_key`; a worker on others has been refused by then.
        """
        raise TypeError(f"{type(self).__name__} has no queues that are shared by key")

    def look(self, now: float) -> None:
        """A message is about to be chosen: take in what has come meanwhile, if nobody pushes it."""

    def seek(self) -> None:
        """Slots are free and nothing can be started: see to it that news will come."""

    def flush(self, more: bool = False) -> None:
        """Send what was kept to be sent together; see `AckWriter.flush`."""

    def last(self) -> None:
        """The dispatcher runs no more: keep nothing from now on."""

    def acknowledge(self, message: Any) -> None:
        """Acknowledge a message whose task may start only if it is still held here.

        Raises:
            Exception: whatever the transport does, or `NotHeldError`; it must not start.
        """
        message.ack()

    def confirm(self, message: Any) -> None:
        """Wait until the broker has seen the message's acknowledgement."""

    def close(self) -> None:
        """Stop; what is unacknowledged goes back."""


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
        if isinstance(broker, amqp.Connection):
            read_any_properties(broker)
        self._frames, reader = read(broker, hub)
        if hub:
            hub.add_reader(broker.sock, reader)
        self._acks = AckWriter(broker, soon)

    def feed(self, **options: Any) -> Feed:
        supplies = self._supplies(options["queue"])
        shared = isinstance(supplies["channel"], SharedChannel)
        return AmqpFeed(frames=None if shared else self._frames, **supplies, **options)

    def pulled(self, **options: Any) -> Feed:
        return PulledAmqpFeed(**self._supplies(options["queue"]), **options)

    def keyed(self, **options: Any) -> Feed:
        queue, parts = options["queue"], options["parts"]
        lanes = Lanes(partial(self._connection.clone, heartbeat=0), queue, parts.keyed.lanes)
        watch = LaneWatch(lanes, queue.name, options.pop("sorter"))
        kind = LanesFeed if parts.link is None else SharedLanesFeed
        return kind(watch=watch, **self._supplies(queue), **options)

    def _supplies(self, queue: Any) -> dict[str, Any]:
        return {
            "channel": self._channels.take(queue.name),
            "meter": self._meter,
            "acks": self._acks,
        }

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


class VirtualSource(Source):
    """One of kombu's emulated brokers, by a channel for each queue."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def feed(self, **options: Any) -> Feed:
        return self._kind()(channel=self._connection.channel(), **options)

    def pulled(self, **options: Any) -> Feed:
        return self._pulled_kind()(channel=self._connection.channel(), **options)

    def _kind(self) -> type[Feed]:
        return VirtualFeed

    def _pulled_kind(self) -> type[Feed]:
        return PulledVirtualFeed

    def acknowledge(self, message: Any) -> None:
        broker_of(self._connection).acknowledge(message)


class SqsSource(VirtualSource):
    """Amazon's SQS, with an event loop."""

    def _kind(self) -> type[Feed]:
        from celery_fair.worker.queues.sqs_feed import SqsFeed

        return SqsFeed

    def _pulled_kind(self) -> type[Feed]:
        from celery_fair.worker.queues.sqs_feed import PulledSqsFeed

        return PulledSqsFeed


def source_for(
    connection: Any,
    hub: Any,
    meter: RefillMeter,
    soon: Callable[[], object],
    at: Callable[[float], object],
    interval: float,
    rings: bool,
    read: Read,
) -> Source:
    """Return the source that fits a connection's transport and the worker's loop.

    Arguments:
        soon: asks for the dispatcher to run soon.
        at: asks for it at a time.
        interval: seconds between two looks at the most, where no message wakes the worker.
        rings: whether one may; it cannot without an event loop.
        read: says how AMQP's socket is read.
    """
    broker = broker_of(connection)
    if isinstance(broker, AmqpBroker):
        return AmqpSource(connection, hub, meter, soon, read)
    if isinstance(broker, RedisBroker):
        from celery_fair.worker.queues.redis_source import RedisSource

        return RedisSource(connection, hub, soon, at, interval, rings)
    if isinstance(broker, SqsBroker) and hub:
        return SqsSource(connection)
    return VirtualSource(connection)
