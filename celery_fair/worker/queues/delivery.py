"""A broker's delivery that tells its feed when it is settled."""

import sys
from typing import Any, Protocol

from kombu.message import Message
from kombu.transport import virtual

from celery_fair.headers import TOKEN

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
    if (feed := getattr(message, "feed", None)) is None:
        message._state = "ACK"  # of a worker without the bootstep
    else:
        message.is_settled()
        feed.settled(message)


class Custodian(Protocol):
    """Who sees to messages that do not simply start; see `feed.Custody`."""

    def starts_once(self, message: Any) -> bool: ...

    def refuse(self, message: Any, exc: BaseException | None) -> None: ...


class Settled(Protocol):
    """Whoever is told what became of its deliveries."""

    @property
    def custody(self) -> Custodian:
        """Who sees to those that do not simply start."""

    def settled(self, message: Any) -> None:
        """It was acknowledged, rejected or requeued."""


class Notes:
    """What a worker notes on a delivery."""

    headers: Any
    delivery_info: Any
    arrived = 0.0  # here, on the monotonic clock
    subscription: str | None = None  # by which it came, if a broker keeps account of it
    aside = ""  # kept by Celery for its "eta", or a rate "limit"
    boarded_at: float | None = None  # handed to the pool, on the monotonic clock
    lane: str | None = None  # its key, where keys of its queue run beside each other
    claimed = ""  # its work in the ledger
    cost = 0.0  # what its queue was charged at dispatch
    cost_key: str | None = None  # what that was estimated by
    cost_guessed = False  # when nothing was known of any

    def arrive(self, now: float, accept: Any = None, subscription: str | None = None) -> None:
        """It is here, by this subscription; it may be decoded if it is of these content types."""
        self.arrived, self.subscription = now, subscription
        if accept is not None:
            self.accept = accept

    def put_aside(self, what_for: str) -> None:
        """Celery keeps it, for an "eta" or a rate "limit"; or, with "", no longer."""
        self.aside = what_for

    def board(self, now: float) -> None:
        """It is handed to the pool."""
        self.boarded_at = now

    def charge(self, cost: float) -> None:
        """Its queue is charged so much, if it starts."""
        self.cost = cost

    def estimate(self, key: str | None, guessed: bool) -> None:
        """Its cost was estimated by this key, or guessed."""
        self.cost_key, self.cost_guessed = key, guessed

    def claim(self, work: str) -> None:
        """This work was claimed for it in the ledger."""
        self.claimed = work

    def take_lane(self, lane: str) -> None:
        """Its key is this."""
        self.lane = lane

    def retag(self, tag: str) -> None:
        """The broker knows it by another tag."""
        self.delivery_tag = tag

    def is_decoded(self, payload: Any) -> None:
        """Its body is this; kombu need not decode it again."""
        self._decoded_cache = payload

    def is_settled(self) -> None:
        """A command of our own has acknowledged it."""
        self._state = "ACK"

    def come_into(self, partition: str, token: int) -> None:
        """It is a partition's; a retry or a replay is to come there, however this one came."""
        self.headers[TOKEN] = token
        self.delivery_info |= {"exchange": "", "routing_key": partition}


def delivery_class(base: type, owner: Settled) -> type:
    """Return a subclass of a transport's message class whose outcome is told to `owner`.

    Kombu creates messages from ``channel.Message``; on a channel of our own this class takes its
    place. The owner hears of an outcome only when the broker call has been made without an error.
    """

    class Delivery(Notes, base):  # type: ignore[misc]
        feed = owner

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
            if not requeue and (self.boarded_at is None or owner.custody.starts_once(self)):
                # With the error, if there is one, of the handler that called us.
                owner.custody.refuse(self, sys.exception())
            else:
                super().reject_log_error(logger, errors, requeue)

    return Delivery
