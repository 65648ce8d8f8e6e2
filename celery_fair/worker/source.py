"""Where a worker's messages come from: one source per connection, which makes the feeds.

Chosen by what the transport can do. Anything unusual takes the plain way, `VirtualSource`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from celery_fair.core.window import RefillMeter
from celery_fair.dead_letter import dead_letter_queue, properties_of
from celery_fair.worker.ack_writer import AckWriter
from celery_fair.worker.feed import AmqpFeed, Feed, VirtualFeed
from celery_fair.worker.pulled import PulledAmqpFeed, PulledVirtualFeed
from celery_fair.worker.reader import DrainingReader

__all__ = ["AmqpSource", "Source", "VirtualSource", "source_for"]

_CONFIRM_TIMEOUT = 10.0
"""Seconds for the broker to confirm a message: one under a memory alarm never does."""


class Source(ABC):
    """One broker connection as the dispatcher's supplier.

    Attributes:
        dead_letters: the queue, and exchange, of the app's dead letters.
    """

    dead_letters = "dead-letters"

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

    def flush(self) -> None:
        """Send what was kept to be sent together."""

    def last(self) -> None:
        """The dispatcher runs no more: keep nothing from now on."""

    def confirm(self, message: Any) -> None:
        """Wait until the broker has seen the message's acknowledgement."""

    def bury(self, message: Any, headers: Mapping[str, Any]) -> None:
        """Move a message to the dead letters, with more headers: neither lose it nor leave it."""
        self._move(message, headers, self.dead_letters)

    def give_back(self, message: Any, once: bool) -> None:
        """Return a message that has not started; if `once`, so that it is no redelivery then."""
        if once:
            self._move(message, {}, "")
        else:
            message.requeue()

    @abstractmethod
    def _move(self, message: Any, headers: Mapping[str, Any], exchange: str) -> None:
        """Publish a copy of a message, under its queue's name, and then acknowledge it."""

    def close(self) -> None:
        """Stop; what is unacknowledged goes back."""


class AmqpSource(Source):
    """An AMQP broker: a channel and a subscription for each queue.

    Arguments:
        soon: asks for the dispatcher to run soon.
    """

    def __init__(
        self, connection: Any, hub: Any, meter: RefillMeter, soon: Callable[[], object]
    ) -> None:
        self._connection = connection
        self._meter = meter
        broker = connection.connection
        if hub:
            hub.add_reader(broker.sock, DrainingReader(broker, hub))
        self._acks = AckWriter(broker, soon)
        self._publishing: Any = None

    def feed(self, **options: Any) -> Feed:
        return AmqpFeed(channel=self._connection.channel(), meter=self._meter, **options)

    def pulled(self, **options: Any) -> Feed:
        return PulledAmqpFeed(channel=self._connection.channel(), meter=self._meter, **options)

    def flush(self) -> None:
        self._acks.flush()

    def last(self) -> None:
        self._acks.write_through()

    def confirm(self, message: Any) -> None:
        message.channel.flow(True)  # which it is already; the answer follows the acknowledgement

    def _move(self, message: Any, headers: Mapping[str, Any], exchange: str) -> None:
        channel, self._publishing = self._publishing, None
        if channel is None or not channel.is_open:
            channel = self._connection.channel()
            channel.confirm_select()
            dead_letter_queue(self.dead_letters)(channel).declare()
        copy = channel.prepare_message(message.body, **properties_of(message, headers))
        channel.basic_publish_confirm(
            copy,
            exchange=exchange,
            routing_key=message.feed.name,
            confirm_timeout=_CONFIRM_TIMEOUT,
        )
        self._publishing = channel  # only now: a late confirmation must not be taken for the next
        message.ack()
        self.flush()


class VirtualSource(Source):
    """One of kombu's emulated brokers, by a channel for each queue."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def feed(self, **options: Any) -> Feed:
        return VirtualFeed(channel=self._connection.channel(), **options)

    def pulled(self, **options: Any) -> Feed:
        return PulledVirtualFeed(channel=self._connection.channel(), **options)

    def _move(self, message: Any, headers: Mapping[str, Any], exchange: str) -> None:
        channel = message.channel
        dead_letter_queue(self.dead_letters)(channel).declare()
        copy = channel.prepare_message(message.body, **properties_of(message, headers))
        channel.basic_publish(copy, exchange, message.feed.name)
        message.ack()


def source_for(connection: Any, hub: Any, meter: RefillMeter, soon: Callable[[], object]) -> Source:
    """Return the source that fits a connection's transport and the worker's loop."""
    driver = connection.transport.driver_type
    if driver == "amqp":
        return AmqpSource(connection, hub, meter, soon)
    if driver == "redis" and hub:
        from celery_fair.worker.redis_source import RedisSource

        return RedisSource(connection, hub, soon)
    return VirtualSource(connection)
