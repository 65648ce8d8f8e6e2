"""A broker's delivery that tells its feed when it is settled."""

import sys
from contextlib import suppress
from datetime import datetime
from threading import Semaphore
from time import monotonic, time
from typing import Any

from kombu.message import Message

from celery_fair.headers import PUBLISHED, TOKEN, time_of


def message_of(item: Any) -> Any:
    """Return a message itself, and that of a request."""
    return item if isinstance(item, Message) else item.message


_OLDEST = 30 * 86400.0
"""Seconds that a message may have waited; who says more has another clock."""


def published_since(item: Any) -> tuple[float, bool]:
    """Return when a message was published, on the monotonic clock, and whether that is known.

    Of one with an ETA: when that was over. Of one whose publisher does not say so, or says what
    cannot be: when it came here.
    """
    arrived = float(message_of(item).arrived)
    if not isinstance(item, Message):
        return arrived, True  # it came due then
    with suppress(Exception):  # anything may be in a message, and it is not decoded yet
        headers = item.headers
        published = time_of(headers.get(PUBLISHED))
        if published is not None:
            if eta := headers.get("eta"):
                published = max(published, datetime.fromisoformat(eta).timestamp())
            age = time() - published
            if age < _OLDEST:
                return min(arrived, monotonic() - age), True
    return arrived, False


class Notes:
    """What a worker notes on a delivery."""

    headers: Any
    delivery_info: Any
    prepared: Any = None  # the request that was made of it ahead of its turn
    delivered = 0.0  # here, on the monotonic clock
    arrived = 0.0  # so too, or when what it was put off for was over
    subscription: str | None = None  # by which it came, if a broker keeps account of it
    aside = ""  # kept by Celery for its "eta", or a rate "limit"; for "later", or "stranded"
    begun_at: float | None = None  # handed to the pool, on the monotonic clock
    lane: str | None = None  # its key, where keys of its queue run beside each other
    turn: Any = None  # by which its key's tags were charged, where its queue is shared by key
    claimed = ""  # its work in the ledger
    cost = 0.0  # what its queue was charged at dispatch
    cost_key: str | None = None  # what that was estimated by
    cost_guessed = False  # when nothing was known of any

    def arrive(self, now: float, accept: Any = None, subscription: str | None = None) -> None:
        """It is here, by this subscription; it may be decoded if it is of these content types."""
        self.arrived, self.subscription = now, subscription
        self.delivered = self.delivered or now
        if accept is not None:
            self.accept = accept

    def prepare(self, request: Any) -> None:
        """This request was made of it, ahead of its turn."""
        self.prepared = request

    def put_aside(self, what_for: str) -> None:
        """It keeps its place for another reason than its turn; or, with "", no longer."""
        self.aside = what_for

    def hand_over(self, now: float) -> None:
        """It is handed to the pool."""
        self.begun_at = now

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

    def come_by(self, turn: Any) -> None:
        """Its key's tags were charged for it by this turn."""
        self.turn = turn

    def retag(self, tag: str) -> None:
        """The broker knows it by another tag."""
        self.delivery_tag = tag

    def is_decoded(self, payload: Any) -> None:
        """Its body is this; kombu need not decode it again."""
        self._decoded_cache = payload

    def is_settled(self) -> None:
        """A command of our own has acknowledged it."""
        self._state = "ACK"

    def belongs_to(self, queue: str) -> None:
        """It is this queue's, whichever one of the broker's it came from."""
        self.delivery_info |= {"exchange": "", "routing_key": queue}

    def come_into(self, partition: str, token: int) -> None:
        """It is a partition's; a retry or a replay is to come there, however this one came."""
        self.headers[TOKEN] = token
        self.belongs_to(partition)


def delivery_class(base: type, owner: Any) -> type:
    """Return a subclass of a transport's message class whose outcome is told to `owner`, a `Feed`.

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
            if not requeue and (self.begun_at is None or owner.dispositions.starts_once(self)):
                # With the error, if there is one, of the handler that called us.
                owner.dispositions.refuse(self, sys.exception())
            else:
                super().reject_log_error(logger, errors, requeue)

    return Delivery


def patient_class(base: type, turns: Semaphore) -> type:
    """Return a subclass of a channel's message class that settles so many at a time, no more.

    In a pool of greenlets as many settle theirs at once as tasks begin, each on a connection of its
    own, and a client with too few of them fails.
    """

    class Patient(base):  # type: ignore[misc]
        def ack(self, multiple: bool = False) -> None:
            with turns:
                super().ack(multiple)

        def reject(self, requeue: bool = False) -> None:
            with turns:
                super().reject(requeue)

        def requeue(self) -> None:
            with turns:
                super().requeue()

    return Patient
