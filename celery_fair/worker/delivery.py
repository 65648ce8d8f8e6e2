"""A broker's delivery that tells its feed when it is settled."""

import sys
from collections.abc import Callable
from typing import Any, Protocol

from kombu.message import Message
from kombu.transport import virtual

__all__ = [
    "NotHeldError",
    "Settled",
    "acknowledge_held",
    "book_settled",
    "delivery_class",
    "message_of",
]


class NotHeldError(Exception):
    """The broker has given the message to another worker meanwhile."""


def message_of(item: Any) -> Any:
    """Return a message itself, and that of a request."""
    return item if isinstance(item, Message) else item.message


def acknowledge_held(message: Any) -> None:
    """Acknowledge a delivery of kombu's Redis transport, if it is still held here.

    Kombu does not look whether it was: a message that was held for longer than the visibility
    timeout has been restored, and may run elsewhere.

    Raises:
        NotHeldError: it is not; it is settled all the same.
        redis.RedisError: it may or may not be.
    """
    removed, _ = message.channel.qos._remove_from_indices(message.delivery_tag).execute()
    book_settled(message)
    if not removed:
        raise NotHeldError("its visibility timeout is over; the broker has restored it")


def book_settled(message: Any) -> None:
    """Note in kombu's books, and ours, that a command of our own has settled a delivery."""
    virtual.QoS.ack(message.channel.qos, message.delivery_tag)
    message._state = "ACK"
    if (feed := getattr(message, "feed", None)) is not None:
        feed.settled(message)


class Settled(Protocol):
    """Whoever is told what became of its deliveries."""

    starts_once: Callable[[Any], bool]
    refuse: Callable[[Any, BaseException | None], object]

    def settled(self, message: Any) -> None:
        """It was acknowledged, rejected or requeued."""


def delivery_class(base: type, owner: Settled) -> type:
    """Return a subclass of a transport's message class whose outcome is told to `owner`.

    Kombu creates messages from ``channel.Message``; on a channel of our own this class takes its
    place. The owner hears of an outcome only when the broker call has been made without an error.
    """

    class Delivery(base):  # type: ignore[misc]
        feed = owner
        arrived = 0.0  # here, on the monotonic clock
        subscription: str | None = None  # by which it came, if a broker keeps account of it
        aside = ""  # kept by Celery for its "eta", or a rate "limit"
        boarded_at: float | None = None  # handed to the pool, on the monotonic clock
        lane: str | None = None  # its key, where keys of its queue run beside each other
        claimed = ""  # its work in the ledger
        cost = 0.0  # what its queue was charged at dispatch
        cost_key: str | None = None  # what that was estimated by
        cost_guessed = False  # when nothing was known of any

        def ack(self, multiple: bool = False) -> None:
            super().ack(multiple)
            owner.settled(self)

        def reject(self, requeue: bool = False) -> None:
            super().reject(requeue)
            owner.settled(self)

        def requeue(self) -> None:
            super().requeue()
            owner.settled(self)

        # Celery calls these, some of them a turn of the event loop after it has decided to; by then
        # the message may have been refused for an error that came up in between.

        def ack_log_error(self, *args: Any, **kwargs: Any) -> None:
            if not self.acknowledged:
                super().ack_log_error(*args, **kwargs)

        def reject_log_error(self, logger: Any, errors: Any, requeue: bool = False) -> None:
            if self.acknowledged:
                return
            if not requeue and (self.boarded_at is None or owner.starts_once(self)):
                owner.refuse(self, sys.exception())  # if any, that of the handler that called us
            else:
                super().reject_log_error(logger, errors, requeue)

    return Delivery
