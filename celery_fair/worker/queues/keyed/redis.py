"""A queue on Redis that is shared fairly by key: the server's script is the scheduler.

Everybody publishes into the queue's own list. A worker that asks for messages has some of those
sorted first, into a list for each key, and gets those of the keys with the least tags (see
`core.keys.tags`; ``tags.lua`` is the same). The tags are the server's, so all workers share
one order, and a message is chosen when a slot is free for it.

Redis does all of that in one step, and the message is recorded as unacknowledged in the same one.
What it took beyond its charge is told with the next question, as is that a place of a capped key is
free again.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any

from celery.worker import state

from celery_fair.brokers.keyed.scripts import KeyedScripts
from celery_fair.clock import elapsed
from celery_fair.core.keys.tags import Turn
from celery_fair.core.window import Ahead
from celery_fair.worker.queues.feed import Aside, Feed
from celery_fair.worker.queues.keyed.by_key import LONG, KeyedFeed, KeyedParts
from celery_fair.worker.queues.redis import RedisFeed

_AHEAD = 0.005
"""Seconds of work that are asked for at once: a key that was quiet waits for so much besides."""

_SORTING = 0.05
"""Seconds for which a worker goes on sorting what has been published, when it has asked."""

_WEIGHTS = 5.0
"""Seconds between two questions for what was set live, which only the log needs to be told."""


class _Renewed(Aside):
    """What comes due of a limited key has left its place, and comes again by its turn."""

    def due(self, message: Any, request: Any) -> None:
        if message.turn.has == "left" and not self._feed.dead:
            self.take(message)
            state.task_ready(request)  # Celery has reserved it
            message._raw["headers"]["eta"] = None  # or it would be put off again
            self._feed.dispositions.give_back([message])
        else:
            super().due(message, request)


class KeyedRedisFeed(KeyedFeed, RedisFeed):
    """Asks for as many messages as slots are free, or are started within some milliseconds."""

    def __init__(self, *, parts: KeyedParts, **options: Any) -> None:
        super().__init__(parts=parts, **options)
        self.aside = _Renewed(self)
        self._ahead = Ahead(_AHEAD, parts.free)
        self._lists = KeyedScripts(self.channel, self._source.send, parts.keyed)
        self._live_weights: Mapping[str, float] = {}
        self._weights_at = 0.0

    def open(self) -> None:
        self._lists.weigh()
        self._cursor: int | None = 0
        super().open()

    def live_weights(self) -> Mapping[str, float]:
        from redis.exceptions import RedisError

        now = monotonic()
        if now >= self._weights_at and not self.dead:
            self._weights_at = now + _WEIGHTS
            with suppress(RedisError, OSError):  # as they were before
                self._live_weights, _ = self._lists.live()
        return self._live_weights

    def hand_back(self) -> None:
        """Return what is buffered, to the head of its keys' lists.

        The first one last: who sorts them takes the one that came last before the others.
        """
        for item in self.buffer:
            self.charged(item, 0.0)
        Feed.hand_back(self)
        if not self.dead:
            self._ask(0)

    def _ask(self, wanted: int) -> tuple[int, int]:
        """Take messages; return how many are left, and how many of those are unsorted."""
        settled = [self._settled.popleft() for _ in range(len(self._settled))]
        left = self._leases.left(self.name)
        charge, prefix, asked = self._usual(), self._source.new_tag(), elapsed()
        try:
            waiting, unsorted, taken = self._lists.pop(wanted, charge, prefix, settled, left)
        except Exception:  # whatever it is, it was perhaps not told; re-raised
            self._leases.untold(self.name, left)
            raise
        for number, (raw, *turn) in enumerate(taken, 1):
            told: list[Any] = turn[:5]
            place = f"{prefix}{number}"
            message = self._take_in(raw, place, recorded=not turn[6:])
            if message is not None:  # else its key may be no text
                told = [field.decode() for field in told]
            tenant, part, finish, part_finish, has = told
            came_by = Turn(tenant, part, finish, part_finish, charge, has, bool(turn[5]), place)
            if message is None:
                self._settled.append((came_by, -charge))
                if has:
                    self._leases.unused(self.name, tenant, place)
                continue
            message.come_by(came_by)
            if has == "place":
                self._leases.take(self.name, message, asked)
        return waiting + unsorted, unsorted

    def _get(self) -> int:
        had = len(self.buffer)
        left, unsorted = self._ask(self._ahead.count(self.given, monotonic()))
        self.withheld = left - unsorted if len(self.buffer) == had else 0
        if len(self.buffer) > 1:  # the first one starts at once
            self._later(LONG, partial(self._give_back_what_waits, [*self.buffer]))
        if unsorted:
            self._lists.sort(until=monotonic() + _SORTING)
        if self._cursor is not None:
            self._cursor = self._lists.adopt(self._cursor)
        return left

    def _give_back_what_waits(self, asked: Sequence[Any]) -> None:
        """Give back what is here still of what was asked for at once.

        Other queues have got its slots, or its own is held back.
        """
        late = [message for message in asked if message in self.buffer]
        if late:
            self._give_back(late)
            self._ask(0)
