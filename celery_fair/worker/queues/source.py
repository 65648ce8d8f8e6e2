"""Where a worker's messages come from: one source per connection, which makes the feeds.

Chosen by what the transport can do. Anything unusual takes the plain way, `VirtualSource`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import amqp
from amqp.transport import TCPTransport

from celery_fair.core.window import RefillMeter
from celery_fair.worker.express.ack_writer import AckWriter
from celery_fair.worker.express.frames import Frames
from celery_fair.worker.express.reader import BufferedReader, DrainingReader
from celery_fair.worker.queues.amqp_feed import AmqpFeed
from celery_fair.worker.queues.delivery import acknowledge_held
from celery_fair.worker.queues.feed import Feed
from celery_fair.worker.queues.pulled import PulledAmqpFeed, PulledVirtualFeed
from celery_fair.worker.queues.virtual_feed import VirtualFeed

__all__ = ["AmqpSource", "Source", "VirtualSource", "source_for"]


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
    """An AMQP broker: a channel and a subscription for each queue.

    Arguments:
        soon: asks for the dispatcher to run soon.
        fast: whether to take the fast path where there is one.
    """

    asks = False

    def __init__(
        self,
        connection: Any,
        hub: Any,
        meter: RefillMeter,
        soon: Callable[[], object],
        fast: bool = True,
    ) -> None:
        self._connection = connection
        self._meter = meter
        broker = connection.connection
        self._frames = Frames(broker) if fast and isinstance(broker, amqp.Connection) else None
        if hub:
            reader: DrainingReader = DrainingReader(broker, hub)
            if self._frames is not None and type(broker.transport) is TCPTransport:
                reader = BufferedReader(broker, hub, self._frames)
            hub.add_reader(broker.sock, reader)
        self._acks = AckWriter(broker, soon)

    def feed(self, **options: Any) -> Feed:
        return AmqpFeed(frames=self._frames, **self._supplies(), **options)

    def pulled(self, **options: Any) -> Feed:
        return PulledAmqpFeed(**self._supplies(), **options)

    def _supplies(self) -> dict[str, Any]:
        return {
            "channel": self._connection.channel(),
            "meter": self._meter,
            "acks": self._acks,
        }

    def flush(self, more: bool = False) -> None:
        self._acks.flush(more)

    def last(self) -> None:
        self._acks.write_through()

    def confirm(self, message: Any) -> None:
        message.channel.flow(True)  # which it is already; the answer follows the acknowledgement


class VirtualSource(Source):
    """One of kombu's emulated brokers, by a channel for each queue."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def feed(self, **options: Any) -> Feed:
        return VirtualFeed(channel=self._connection.channel(), **options)

    def pulled(self, **options: Any) -> Feed:
        return PulledVirtualFeed(channel=self._connection.channel(), **options)

    def acknowledge(self, message: Any) -> None:
        if self._connection.transport.driver_type == "redis":
            acknowledge_held(message)
        else:
            super().acknowledge(message)


def source_for(
    connection: Any,
    hub: Any,
    meter: RefillMeter,
    soon: Callable[[], object],
    at: Callable[[float], object] | None,
    interval: float,
    fast: bool = True,
) -> Source:
    """Return the source that fits a connection's transport and the worker's loop.

    Arguments:
        soon: asks for the dispatcher to run soon.
        at: asks for it at a time: given where it must not be a message that wakes the worker.
        interval: seconds between two looks at the most, then.
        fast: whether to take the fast path where there is one.
    """
    driver = connection.transport.driver_type
    if driver == "amqp":
        return AmqpSource(connection, hub, meter, soon, fast)
    if driver == "redis" and hub:
        from celery_fair.worker.queues.redis_source import RedisSource

        return RedisSource(connection, hub, soon, at, interval)
    return VirtualSource(connection)
