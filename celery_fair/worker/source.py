"""Where a worker's messages come from: one source per connection, which makes the feeds.

Chosen by what the transport can do. Anything unusual takes the plain way, `VirtualSource`.
"""

from typing import Any, Protocol

from celery_fair.core.window import RefillMeter
from celery_fair.worker.feed import Feed, PullFeed, PushFeed
from celery_fair.worker.reader import DrainingReader

__all__ = ["AmqpSource", "Source", "VirtualSource", "source_for"]


class Source(Protocol):
    """One broker connection as the dispatcher's supplier."""

    def feed(self, **options: Any) -> Feed:
        """Make a feed; `options` are those of `Feed`, less the channel."""

    def look(self, now: float) -> None:
        """A message is about to be chosen: take in what has come meanwhile, if nobody pushes it."""

    def seek(self) -> None:
        """Slots are free and nothing can be started: see to it that news will come."""

    def close(self) -> None:
        """Stop; what is unacknowledged goes back."""


class AmqpSource:
    """An AMQP broker: a channel and a subscription for each queue."""

    def __init__(self, connection: Any, hub: Any, meter: RefillMeter) -> None:
        self._connection = connection
        self._meter = meter
        if hub:
            broker = connection.connection
            hub.add_reader(broker.sock, DrainingReader(broker, hub))

    def feed(self, **options: Any) -> Feed:
        return PushFeed(channel=self._connection.channel(), meter=self._meter, **options)

    def look(self, now: float) -> None:
        """The broker pushes."""

    def seek(self) -> None:
        """The broker pushes."""

    def close(self) -> None:
        """The connection's end closes the channels."""


class VirtualSource:
    """One of kombu's emulated brokers, by a channel for each queue."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def feed(self, **options: Any) -> Feed:
        return PullFeed(channel=self._connection.channel(), **options)

    def look(self, now: float) -> None:
        """The subscriptions bring it."""

    def seek(self) -> None:
        """The subscriptions wake the loop."""

    def close(self) -> None:
        """The connection's end closes the channels."""


def source_for(connection: Any, hub: Any, meter: RefillMeter) -> Source:
    """Return the source that fits a connection's transport and the worker's loop."""
    driver = connection.transport.driver_type
    if driver == "amqp":
        return AmqpSource(connection, hub, meter)
    if driver == "redis" and hub:
        from celery_fair.worker.redis_source import RedisSource

        return RedisSource(connection, hub)
    return VirtualSource(connection)
