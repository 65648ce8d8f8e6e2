"""Queues that are asked for a message when a slot is free for it, and hold none before.

Nothing is subscribed to, so nothing waits at a busy worker: a message is taken when its queue has
been chosen, one at a time. The broker's answer says how many are left, and while there are some the
queue takes part in the rounds like one whose messages are here. A queue that was found empty is
asked again after a while: a millisecond at first, and twice as long each time, up to an interval.
Under strict order it is also asked before every choice, so that what is urgent waits for one
message at the most.
"""

import math
from abc import abstractmethod
from typing import Any

from amqp import ChannelError

from celery_fair.worker.queues.amqp_feed import AmqpFeed
from celery_fair.worker.queues.feed import Feed
from celery_fair.worker.queues.lanes import AHEAD, Lanes
from celery_fair.worker.queues.virtual_feed import VirtualFeed

__all__ = ["Pulled", "PulledAmqpFeed", "PulledVirtualFeed"]

_FIRST_WAIT = 0.001


class Pulled(Feed):
    """What the queues of all brokers have in common.

    Arguments:
        interval: seconds between two questions to an empty queue at the most.
        eager: whether an empty queue is asked again as soon as another message was started.
        lanes: given where keys of the queue run beside each other.
    """

    asks = True

    def __init__(
        self,
        *args: Any,
        interval: float,
        eager: bool,
        lanes: Lanes | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._lanes = lanes
        self._interval = interval
        self._eager = eager
        self._is_open = False
        self._left = 0
        self._wait = 0.0
        self._ask_at = 0.0
        self._asked_after = -1

    def open(self) -> None:
        self._is_open = True
        self._news.arrived(self)

    def cancel(self) -> None:
        self._is_open = False

    def refill(self) -> None:
        """A message is taken for a free slot only."""

    def _apply_prefetch(self) -> None:
        """There is no window."""

    @property
    def must_ask(self) -> bool:
        return self._next() is None

    @property
    def owed(self) -> bool:
        return False

    @property
    def ahead(self) -> int | None:
        return None

    def ask_at(self, started: int) -> float:
        """Return when to ask; at once if that is past, or another message was started since."""
        if (self._eager and started != self._asked_after) or self._next() is not None:
            return 0.0
        return math.inf if self._is_full else self._ask_at

    def next_cost(self, cost: Any) -> float | None:
        place = self._next()
        if place is not None:
            return float(cost(self.buffer[place]))
        return self.flow.last_cost if self._left and not self._is_full else None

    def take(self, now: float, started: int) -> Any:
        place, came = self._next(), True
        while place is None and came and self._may_ask:
            had = len(self.buffer)
            self._left = self._get()
            place, came = self._next(), len(self.buffer) > had
        if place is not None:
            self._wait = self._ask_at = 0.0
            item = self.buffer[place]
            del self.buffer[place]
            self.given += 1
            return item
        if not self._is_full:
            self._left = 0
        self._wait = min(max(2 * self._wait, _FIRST_WAIT), self._interval)
        self._ask_at = now + self._wait
        self._asked_after = started
        return None

    def _next(self) -> int | None:
        """Return the place in the buffer of what may start now."""
        if self._lanes is not None:
            return self._lanes.first(self.buffer)
        return 0 if self.buffer else None

    @property
    def _may_ask(self) -> bool:
        has_room = self.parked < self._places
        return self._is_open and not self._limited and not self._is_full and has_room

    @property
    def _is_full(self) -> bool:
        return len(self.buffer) >= AHEAD

    @abstractmethod
    def _get(self) -> int:
        """Take a message into the buffer, if there is one; return how many are left."""


class PulledAmqpFeed(Pulled, AmqpFeed):
    """By ``basic.get``, whose answer has the number of messages left."""

    def reopen(self) -> None:
        self.queue.declare()
        self.open()

    def _get(self) -> int:
        try:
            raw = self.channel.basic_get(self.name)
        except ChannelError as exc:
            self._refused(exc)
            return 0
        if raw is None:
            return 0
        left = raw.delivery_info["message_count"]
        self._unsettled += 1
        self._receive(self.channel.message_to_python(raw))
        return int(left)


class PulledVirtualFeed(Pulled, VirtualFeed):
    """By kombu's emulation of ``basic.get``."""

    def _get(self) -> int:
        raw = self.channel.basic_get(self.name)
        if raw is None:
            return 0
        self.window.delivered(0.0)
        self._receive(self.channel.message_to_python(raw))
        return int(self.channel._size(self.name))
