"""What a worker serves of its keys is told to others, and theirs to it; see `core.elsewhere`.

A thread does so, ten times a second or less often, in the store of keys. While that is away nothing
is told, and the tags are this worker's own until it is back.
"""

import logging
from collections import deque
from collections.abc import Mapping
from threading import Event, Lock, Thread
from typing import Protocol

from celery_fair.brokers.keyed.reports import Key, Reports
from celery_fair.brokers.keyed.store import KeyStore

__all__ = ["Exchange", "Exchanges"]

logger = logging.getLogger(__name__)

_QUIET = 5
"""How much less often is told and heard that nothing is served."""

_MOST_KEYS = 10_000
"""Keys of which it is kept what was heard, if that is not looked at."""

_AGAIN = 2.0
"""Seconds until another try if one has failed."""


class Exchange(Protocol):
    """Of one queue."""

    def tell(self, key: Key, cost: float) -> None:
        """A message was served here, or took so much more than was told."""

    def heard(self) -> Mapping[Key, float] | None:
        """Return, once, what was served elsewhere; None if nobody was asked since."""


class NoExchange:
    """Nobody is told."""

    def tell(self, key: Key, cost: float) -> None:
        """Forget it."""

    def heard(self) -> None:
        """Nobody is asked."""


class _StoreExchange:
    def __init__(self, reports: Reports) -> None:
        self._reports = reports
        self._told: deque[tuple[Key, float]] = deque()
        self._heard: dict[Key, float] | None = None
        self._lock = Lock()

    def tell(self, key: Key, cost: float) -> None:
        self._told.append((key, cost))

    def heard(self) -> Mapping[Key, float] | None:
        if self._heard is None:
            return None
        with self._lock:
            heard, self._heard = self._heard, None
        return heard

    def take_turn(self) -> float:
        """Tell and hear; return how many seconds later to do so again."""
        served: dict[Key, float] = {}
        while self._told:
            key, cost = self._told.popleft()
            served[key] = served.get(key, 0.0) + cost
        found = self._reports.exchange(served)
        with self._lock:
            known = self._heard or {}
            if len(known) < _MOST_KEYS:  # or nobody has listened for long
                known = {key: known.get(key, 0.0) + found.get(key, 0.0) for key in {*known, *found}}
            self._heard = known
        return self._reports.every * (1 if served or found else _QUIET)


class Exchanges:
    """Of all queues of a worker that are shared by key.

    Arguments:
        store: of keys; None: there is none.
    """

    def __init__(self, store: KeyStore | None) -> None:
        self._store = store
        self._by_queue: dict[str, _StoreExchange] = {}
        self._closed = Event()
        self._thread: Thread | None = None

    def of(self, queue: str) -> Exchange:
        """Return that of a queue; from then on what is served of it is told."""
        if self._store is None:
            return NoExchange()
        if queue not in self._by_queue:
            exchange = _StoreExchange(self._store.reports(queue))
            self._by_queue = {**self._by_queue, queue: exchange}
        if self._thread is None:
            self._thread = Thread(target=self._run, name="fair-key-reports", daemon=True)
            self._thread.start()
        return self._by_queue[queue]

    def close(self) -> None:
        """Tell no more."""
        self._closed.set()

    def _run(self) -> None:
        wait = 0.0
        while not self._closed.wait(wait):
            wait = min(map(self._turn, self._by_queue.values()))

    def _turn(self, exchange: _StoreExchange) -> float:
        try:
            return exchange.take_turn()
        except Exception as exc:  # noqa: BLE001 - of whatever client or server; tried again
            logger.debug("Workers cannot tell each other what they serve: %r", exc)
            return _AGAIN
