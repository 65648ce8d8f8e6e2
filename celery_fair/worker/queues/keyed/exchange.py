"""What a worker serves of its keys is told to others, and theirs to it; see `core.elsewhere`.

A thread does so, ten times a second or less often, in the store of keys. While that is away nothing
is told, and the tags are this worker's own until it is back.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Event, Lock, Thread
from time import monotonic
from typing import Protocol

from celery_fair.brokers.keyed.reports import Reports
from celery_fair.brokers.keyed.store import KeyStore

__all__ = ["Exchange", "Exchanges"]

logger = logging.getLogger(__name__)

_QUIET = 5
"""How much less often is told and heard that nothing is served."""

_OLD = 2.0
"""Seconds after which what was heard, and not looked at, counts for those alone who wait here: who
has nothing here is not to be set back for what it got elsewhere of slots that were free."""

_AGAIN = 2.0
"""Seconds until another try if one has failed."""


Heard = tuple[Mapping[str, float], Mapping[str, float]]
"""What was served elsewhere, by tenant: lately, and before that by those who wait here."""


def _none(_: str) -> bool:
    return False


class Exchange(Protocol):
    """Of one queue.

    Attributes:
        known: says whether a tenant waits here.
    """

    known: Callable[[str], bool]

    def tell(self, tenant: str, cost: float) -> None:
        """A message was served here, or took so much more than was told."""

    def heard(self) -> Heard | None:
        """Return, once, what was served elsewhere; None if nobody was asked since."""


class NoExchange:
    """Nobody is told."""

    def __init__(self) -> None:
        self.known: Callable[[str], bool] = _none

    def tell(self, tenant: str, cost: float) -> None:
        """Forget it."""

    def heard(self) -> None:
        """Nobody is asked."""


class _StoreExchange:
    def __init__(self, reports: Reports) -> None:
        self.known: Callable[[str], bool] = _none
        self._reports = reports
        self._told: deque[tuple[str, float]] = deque()
        self._lock = Lock()
        self._heard: deque[tuple[float, Mapping[str, float]]] = deque()
        self._before: dict[str, float] = {}

    def tell(self, tenant: str, cost: float) -> None:
        self._told.append((tenant, cost))

    def heard(self) -> Heard | None:
        if not self._heard:
            return None
        with self._lock:
            before, self._before = self._before, {}
            lately: dict[str, float] = {}
            while self._heard:
                _add(self._heard.popleft()[1], lately)
        return lately, before

    def take_turn(self) -> float:
        """Tell and hear; return how many seconds later to do so again."""
        served: dict[str, float] = {}
        with suppress(IndexError):
            while True:
                tenant, cost = self._told.popleft()
                served[tenant] = served.get(tenant, 0.0) + cost
        found = self._reports.exchange(served)
        now = monotonic()
        with self._lock:
            self._heard.append((now, found))
            while self._heard[0][0] < now - _OLD:
                _, old = self._heard.popleft()
                _add({key: cost for key, cost in old.items() if self.known(key)}, self._before)
        return self._reports.every * (1 if served or found else _QUIET)


def _add(some: Mapping[str, float], total: dict[str, float]) -> None:
    for tenant, cost in some.items():
        total[tenant] = total.get(tenant, 0.0) + cost


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
        due: dict[str, float] = {}
        while not self._closed.wait(max(0.0, min(due.values(), default=0.0) - monotonic())):
            for queue, exchange in self._by_queue.items():
                if due.get(queue, 0.0) <= monotonic():  # each in its time: others count on that
                    due[queue] = self._turn(exchange) + monotonic()

    def _turn(self, exchange: _StoreExchange) -> float:
        try:
            return exchange.take_turn()
        except Exception as exc:  # noqa: BLE001 - of whatever client or server; tried again
            logger.debug("Workers cannot tell each other what they serve: %r", exc)
            return _AGAIN
