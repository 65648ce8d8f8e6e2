"""A queue on Redis that is shared fairly by key: the server's script is the scheduler.

Everybody publishes into the queue's own list. A worker that asks for messages has some of those
sorted first, into a list for each key, and gets those of the keys with the least tags (see
`celery_fair.core.tags`; ``tags.lua`` is the same). The tags are the server's, so all workers share
one order, and a message is chosen when a slot is free for it.

Redis does all of that in one step, and the message is recorded as unacknowledged in the same one.
What it took beyond its charge is told with the next question, as is that a place of a capped key is
free again.
"""

from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any

from kombu.transport import virtual

from celery_fair.brokers.keyed.lists import KeyedLists, Left, Turn
from celery_fair.settings import KeyedQueue
from celery_fair.worker.queues.delivery import message_of
from celery_fair.worker.queues.feed import Feed
from celery_fair.worker.queues.keyed.places import Places
from celery_fair.worker.queues.pulled import Pulled
from celery_fair.worker.queues.redis_source import RedisFeed

__all__ = ["KeyedRedisFeed"]

_AHEAD = 0.005
"""Seconds of work that are asked for at once: a key that was quiet waits for so much besides."""

_MOST = 32
"""Messages that are asked for at once, at the most."""

_WINDOW = 0.1
"""Seconds over which it is counted how much work that is."""

_SORTING = 0.05
"""Seconds for which a worker goes on sorting what has been published, when it has asked."""


class KeyedRedisFeed(Pulled, RedisFeed):
    """Asks for as many messages as slots are free, or are started within some milliseconds.

    Arguments:
        keyed: its entry in ``fair_keys``.
        places: of capped keys' messages.
        usual: returns what to reckon for a message that is not here yet.
        free: returns how many slots are free.
    """

    def __init__(
        self,
        *,
        keyed: KeyedQueue,
        places: Places,
        usual: Callable[[], float],
        free: Callable[[], int],
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._leases = places
        self._usual = usual
        self._free = free
        self._lists = KeyedLists(self.channel, self._source.send, keyed)
        self._settled: deque[tuple[Turn, float]] = deque()  # appended to by any thread
        self._wanted_at_once = 0
        self._since, self._given_by_then = 0.0, 0

    def open(self) -> None:
        self._lists.weigh()
        self._cursor: int | None = 0
        super().open()

    def charged(self, item: Any, cost: float) -> None:
        """This is the message's cost, as far as it is known; nothing if it did not start.

        Then it leaves its place, unless it waits for a rate limit of Celery's alone.
        """
        message = message_of(item)
        turn: Turn | None = message.turn
        if turn is not None and cost != turn.charged:
            self._settled.append((turn, cost - turn.charged))
            message.come_by(turn._replace(charged=cost))
        if not cost and message.aside != "limit":
            self._leases.leave(self.name, message, unused=True)

    def ended(self, message: Any) -> None:
        if self._leases.leave(self.name, message, unused=False):
            self._ask_at = 0.0  # its key may have waited for that

    def take(self, now: float, started: int) -> Any:
        """Return the next message that has its place still, if it needs one."""
        item = super().take(now, started)
        while item is not None and not self._leases.holds(self.name, message_of(item)):
            self.charged(item, 0.0)
            self.custody.give_back([message_of(item)])
            item = super().take(now, started)
        return item

    def came_due(self, message: Any, request: Any) -> None:
        """Of a limited key it has left its place, and comes again by its turn."""
        if message.turn.has == "left" and not self.dead:
            self._take_back(message)
            message._raw["headers"]["eta"] = None  # or it would be put off again
            self.custody.give_back([message])
        else:
            super().came_due(message, request)

    def die(self) -> None:
        for message in [*map(message_of, self.buffer), *self._aside.values()]:
            self._leases.leave(self.name, message, unused=True)
        super().die()

    def hand_back(self) -> None:
        """Return what is buffered, to the head of its keys' lists.

        The first one last: who sorts them takes the one that came last before the others.
        """
        for item in self.buffer:
            self.charged(item, 0.0)
        Feed.hand_back(self)
        if not self.dead:
            self._ask(0)

    def _at_once(self, now: float) -> int:
        elapsed = now - self._since
        if elapsed >= _WINDOW:
            started = self.given - self._given_by_then
            self._wanted_at_once = int(_AHEAD * started / elapsed)
            self._since, self._given_by_then = now, self.given
        return max(1, min(_MOST, max(self._wanted_at_once, self._free())))

    def _ask(self, wanted: int) -> tuple[int, int]:
        """Take messages; return how many are left, and how many of those are unsorted."""
        settled = [self._settled.popleft() for _ in range(len(self._settled))]
        left = self._leases.left(self.name)
        charge, prefix, asked = self._usual(), self._source.new_tag(), monotonic()
        try:
            waiting, unsorted, taken = self._lists.pop(wanted, charge, prefix, settled, left)
        except Exception:  # whatever it is, it was perhaps not told; re-raised
            self._leases.untold(self.name, left)
            raise
        for number, (raw, *turn) in enumerate(taken, 1):
            tenant, part, finish, part_finish, has, first, *unread = (t.decode() for t in turn)
            record = type(self.channel.qos).append if unread else virtual.QoS.append
            message = self._take_in(raw, f"{prefix}{number}", record)
            came_by = Turn(tenant, part, finish, part_finish, charge, has, bool(first))
            if message is None:
                self._settled.append((came_by, -charge))
                if has:
                    self._leases.untold(self.name, [Left(tenant, f"{prefix}{number}", True)])
                continue
            message.come_by(came_by)
            if has == "place":
                self._leases.take(self.name, message, asked)
        return waiting + unsorted, unsorted

    def _get(self) -> int:
        had = len(self.buffer)
        left, unsorted = self._ask(self._at_once(monotonic()))
        self.withheld = left - unsorted if len(self.buffer) == had else 0
        if unsorted:
            self._lists.sort(until=monotonic() + _SORTING)
        if self._cursor is not None:
            self._cursor = self._lists.adopt(self._cursor)
        return left
