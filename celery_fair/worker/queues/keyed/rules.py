"""What keys may start, and weigh, where the messages are on RabbitMQ and a Redis keeps the count.

The settings say it; what was set live (`fair keys set`, `fair keys pause`) is in the store, where a
thread looks twice a second. Only a key that has a cap, a leash or a pause asks the store before a
message of it starts: one step there, which all workers take one after the other, so that never one
too many runs. While the store is away such keys start nothing, and the others go on.
"""

import logging
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from threading import Event, Thread
from time import monotonic
from typing import NamedTuple, Protocol, TypeVar
from uuid import uuid4

from celery.exceptions import ImproperlyConfigured

from celery_fair.brokers.keyed.lists import KeyedLists, Left
from celery_fair.brokers.keyed.store import KeyStore
from celery_fair.settings import KeyedQueue

__all__ = ["KeyRules", "LiveRules", "Permit", "QueueRules"]

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

_EVERY = 0.5
"""Seconds between two looks at what was set live."""

_RETRY, _PATIENCE = 1.0, 20
"""Seconds until the store is asked again that was away, and times as long as an attempt took."""

_AGAIN, _LONGEST = 0.02, 0.5
"""Seconds until a key is tried again that waits for other workers: at first, and at the most."""


class Permit(NamedTuple):
    """A message may start.

    Attributes:
        has: as in `celery_fair.brokers.keyed.lists.Turn`.
        place: what its place is called.
    """

    has: str = ""
    place: str = ""


class QueueRules(Protocol):
    """Of one queue."""

    def weight(self, tenant: str) -> float:
        """Return what a tenant weighs now."""

    def live_weights(self) -> Mapping[str, float]:
        """Return the weights that tenants were given live."""

    def is_limited(self, tenant: str) -> bool:
        """Whether a tenant has a cap, a leash or a pause."""

    def may(self, tenant: str) -> Permit | float:
        """Ask for a message's start; else return until when not to, on the monotonic clock."""

    def leave(self, left: list[Left]) -> bool:
        """These messages have their places no longer; return whether that could be told."""

    def spare(
        self, tenant: str, offered: int | None = None, given_up: int | None = None
    ) -> int | None:
        """Return the lane for what a tenant has that is to wait; see `KeyedLists.spare`."""


class KeyRules:
    """As the settings say, where there is no store: then nothing is limited."""

    def __init__(self, keyed: KeyedQueue) -> None:
        self._weights, self._usual = keyed.weights, keyed.weight

    def weight(self, tenant: str) -> float:
        """Return what a tenant weighs."""
        return self._weights.get(tenant, self._usual)

    def live_weights(self) -> Mapping[str, float]:
        """None are."""
        return {}

    def is_limited(self, tenant: str) -> bool:
        """Nobody is."""
        return False

    def may(self, tenant: str) -> Permit | float:
        """Let it start."""
        return Permit()

    def leave(self, left: list[Left]) -> bool:
        """Nothing has a place."""
        return True

    def spare(
        self, tenant: str, offered: int | None = None, given_up: int | None = None
    ) -> int | None:
        """Nobody is to wait."""
        return None


class _StoreRules(KeyRules):
    """As a store says besides.

    Arguments:
        lists: what it keeps of the queue.
    """

    def __init__(self, keyed: KeyedQueue, lists: KeyedLists) -> None:
        super().__init__(keyed)
        self._name = keyed.name
        self._lists = lists
        self._own, self._others = keyed.own_limits, keyed.limits
        self._live_weights: Mapping[str, float] = {}
        self._live_limits: frozenset[str] = frozenset()
        self._prefix, self._numbers = uuid4().hex[:12], count(1)
        self._waits: dict[str, float] = {}  # seconds until the next try, by tenant
        self._away_until = -math.inf
        self._is_away = False
        self._is_weighed = False

    def weight(self, tenant: str) -> float:
        return self._live_weights.get(tenant) or super().weight(tenant)

    def live_weights(self) -> Mapping[str, float]:
        return self._live_weights

    def may(self, tenant: str) -> Permit | float:
        if not self.is_limited(tenant):
            return Permit()
        place = f"{self._prefix}.{next(self._numbers)}"
        answer = self._asked(lambda: self._lists.may(tenant, place))
        if answer is None:
            return self._away_until
        if isinstance(answer, str):
            self._waits.pop(tenant, None)
            return Permit(answer, place)
        if answer <= _LONGEST:  # for a token, or for the end of a lease
            return monotonic() + answer
        wait = self._waits[tenant] = min(_LONGEST, max(_AGAIN, 2 * self._waits.get(tenant, 0.0)))
        return monotonic() + wait

    def leave(self, left: list[Left]) -> bool:
        def tell() -> bool:
            self._lists.leave(left)
            return True

        return self._asked(tell) is not None

    def spare(
        self, tenant: str, offered: int | None = None, given_up: int | None = None
    ) -> int | None:
        return self._asked(lambda: self._lists.spare(tenant, offered, given_up))

    def look(self) -> None:
        """Take in what was set live."""
        if not self._is_weighed:
            self._lists.weigh()
            self._is_weighed = True
        self._live_weights, limited = self._lists.live()
        self._live_limits = frozenset(limited)

    def is_limited(self, tenant: str) -> bool:
        if tenant in self._live_limits:
            return True
        limits = self._own.get(tenant, self._others)
        return limits.max_in_flight is not None or limits.rate is not None

    def _asked(self, ask: Callable[[], _T]) -> _T | None:
        """Return the store's answer; None if it has none, or had none a moment ago."""
        from redis.exceptions import RedisError

        began = monotonic()
        if began < self._away_until:
            return None
        try:
            answer = ask()
        except (RedisError, OSError) as exc:
            self._cannot(exc, began)
            return None
        if self._is_away:
            self._is_away = False
            logger.warning("The store of the keys of queue %s is back", self._name)
        return answer

    def _cannot(self, exc: Exception, asked: float) -> None:
        now = monotonic()
        self._away_until = now + max(_RETRY, _PATIENCE * (now - asked))
        if not self._is_away:
            self._is_away = True
            logger.warning(
                "The store of the keys of queue %s cannot be reached (%s); until it is back, keys"
                " that have a cap, a leash or a pause start nothing, and the others go on",
                self._name,
                exc,
            )


class LiveRules:
    """The rules of a worker's queues, by a store.

    Arguments:
        store: of keys; None: there is none.
        queues: those of ``fair_keys``, by name.
    """

    def __init__(self, store: KeyStore | None, queues: Mapping[str, KeyedQueue]) -> None:
        self._queues = queues
        self._by_store: dict[str, _StoreRules] = {}
        if store is not None:
            self._by_store = {
                name: _StoreRules(keyed, store.lists(keyed)) for name, keyed in queues.items()
            }
        self._closed = Event()
        self._thread: Thread | None = None

    def of(self, queue: str) -> QueueRules:
        """Return those of a queue; from then on it is looked for what is set live.

        Raises:
            celery.exceptions.ImproperlyConfigured: the store lets this user have no keys there.
        """
        if not self._by_store:
            return KeyRules(self._queues[queue])
        rules = self._by_store[queue]
        self._look_at(rules)
        if self._thread is None:
            self._thread = Thread(target=self._look, name="fair-key-rules", daemon=True)
            self._thread.start()
        return rules

    def close(self) -> None:
        """Look no more."""
        self._closed.set()

    def _look(self) -> None:
        while not self._closed.wait(_EVERY):
            for rules in self._by_store.values():
                with suppress(ImproperlyConfigured):  # said at the start
                    self._look_at(rules)

    def _look_at(self, rules: _StoreRules) -> None:
        from redis.exceptions import RedisError

        try:
            rules.look()
        except (RedisError, OSError) as exc:  # tried again
            logger.debug("Cannot look what keys may: %r", exc)
