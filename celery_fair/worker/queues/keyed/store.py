"""What keys may start and weigh, and what other workers serve, by the word of a store of keys.

Where the messages are on RabbitMQ a Redis keeps count of what keys run. The settings say what they
may; what was set live (`fair keys set`, `fair keys pause`) is in the store, where a thread looks
twice a second. Only a key that has a cap, a leash or a pause asks the store before a message of it
starts: one step there, which all workers take one after the other, so that never one too many runs.
While the store is away such keys start nothing, and the others go on.

The thread also tells other workers what is served here, and hears what they serve, ten times a
second or less often (`core.keys.elsewhere`). While the store is away nothing is told,
and the tags are this worker's own until it is back.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from threading import Event, Lock, Thread
from time import monotonic
from typing import TypeVar
from uuid import uuid4

from celery.exceptions import ImproperlyConfigured

from celery_fair.brokers.keyed.scripts import Left
from celery_fair.brokers.keyed.store import KeyStore
from celery_fair.core.keys.elsewhere import Elsewhere
from celery_fair.core.keys.front import Permit
from celery_fair.core.keys.lanes import is_nobodys
from celery_fair.core.keys.tags import Served, TenantTags
from celery_fair.settings import KeyedQueue
from celery_fair.worker.away import Away

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

_EVERY = 0.5
"""Seconds between two looks at what was set live."""

_SOON, _LONGEST = 0.02, 0.5
"""Seconds until a key is tried again that waits for other workers: at first, and at the most."""

_QUIET = 5
"""How much less often is told and heard that nothing is served."""

_OLD = 2.0
"""Seconds after which what was heard, and not looked at, counts for those alone who wait here: who
has nothing here is not to be set back for what it got elsewhere of slots that were free."""

_AGAIN = 2.0
"""Seconds until another try to tell others if one has failed."""

_FREE = Permit()

Heard = tuple[Mapping[str, float], Mapping[str, float]]
"""What was served elsewhere, by tenant: lately, and before that by those who wait here."""


class StoreLink:
    """Of one queue. Without a store nobody is limited, and there is nobody to tell and to hear.

    Attributes:
        has_store: whether there is one.
    """

    def __init__(self, keyed: KeyedQueue, store: KeyStore | None) -> None:
        self._name = keyed.name
        self._weights, self._weight = keyed.weights, keyed.weight
        self._usually_limited = bool(keyed.limits)
        self._limited = {own: bool(limits) for own, limits in keyed.own_limits.items()}
        self.has_store = store is not None
        if store is not None:
            self._lists = store.lists(keyed)
            self._reports = store.reports(keyed.name)
        self._live_weights: Mapping[str, float] = {}
        self._live_limits: frozenset[str] = frozenset()
        self._prefix, self._numbers = uuid4().hex[:12], count(1)
        self._waits: dict[str, float] = {}  # seconds until the next try, by tenant
        self._away = Away(self._lost, self._back)
        self._is_weighed = False
        self._look_at = self._report_at = 0.0
        self._told: deque[tuple[str, float]] = deque()
        self._lock = Lock()
        self._heard: deque[tuple[float, Mapping[str, float]]] = deque()
        self._before: dict[str, float] = {}
        self._waits_here: Callable[[str], bool] = lambda _: False

    # What keys may ------------------------------------------------------------------

    def weight(self, tenant: str) -> float:
        """Return what a tenant weighs now."""
        return self._live_weights.get(tenant) or self._weights.get(tenant, self._weight)

    def live_weights(self) -> Mapping[str, float]:
        """Return the weights that tenants were given live."""
        return self._live_weights

    def is_limited(self, tenant: str) -> bool:
        """Whether a tenant has a cap, a leash or a pause."""
        return tenant in self._live_limits or self._limited.get(tenant, self._usually_limited)

    def may(self, tenant: str) -> Permit | float:
        """Ask for a message's start; else return until when not to, on the monotonic clock."""
        if not self.is_limited(tenant):
            return _FREE
        place = f"{self._prefix}.{next(self._numbers)}"
        answer = self._asked(lambda: self._lists.may(tenant, place))
        if answer is None:
            return self._away.until
        if isinstance(answer, str):
            self._waits.pop(tenant, None)
            return Permit(answer, place)
        if answer > _LONGEST:  # it need not be for a token, or for the end of a lease
            before = self._waits.get(tenant, 0.0)
            answer = self._waits[tenant] = min(_LONGEST, max(_SOON, 2 * before))
        return monotonic() + answer

    def leave(self, left: list[Left]) -> bool:
        """These messages have their places no longer; return whether that could be told."""

        def tell() -> bool:
            self._lists.leave(left)
            return True

        return self._asked(tell) is not None

    def spare(
        self, tenant: str, offered: int | None = None, given_up: int | None = None
    ) -> int | None:
        """Return the lane for what a tenant has that is to wait; see `KeyedLists.spare`."""
        if not self.has_store:
            return None
        return self._asked(lambda: self._lists.spare(tenant, offered, given_up))

    def _asked(self, ask: Callable[[], _T]) -> _T | None:
        """Return the store's answer; None if it has none, or had none a moment ago."""
        from redis.exceptions import RedisError

        return self._away.asked(ask, RedisError, OSError)

    def _lost(self, exc: Exception) -> None:
        logger.warning(
            "The store of the keys of queue %s cannot be reached (%s); until it is back, keys that"
            " have a cap, a leash or a pause start nothing, and the others go on",
            self._name,
            exc,
        )

    def _back(self) -> None:
        logger.warning("The store of the keys of queue %s is back", self._name)

    # What is served -----------------------------------------------------------------

    def listen(self, waits_here: Callable[[str], bool]) -> None:
        """Hear what is served elsewhere, of a queue that is consumed from now on.

        Arguments:
            waits_here: says whether a tenant waits here.
        """
        self._waits_here = waits_here

    def tell(self, tenant: str, cost: float) -> None:
        """A message was served here, or took so much more than was told."""
        self._told.append((tenant, cost))

    def heard(self) -> Heard | None:
        """Return, once, what was served elsewhere; None if nobody was asked since."""
        if not self._heard:
            return None
        with self._lock:
            before, self._before = self._before, {}
            lately: dict[str, float] = {}
            while self._heard:
                _add(self._heard.popleft()[1], lately)
        return lately, before

    # By the thread ------------------------------------------------------------------

    def work(self) -> float:
        """Look, tell and hear, as far as it is time; return when to do so again."""
        if monotonic() >= self._look_at:
            with suppress(ImproperlyConfigured):  # said at the start
                self.look()
        if monotonic() >= self._report_at:
            try:
                wait = self.report()
            except Exception as exc:  # noqa: BLE001 - of whatever client or server; tried again
                logger.debug("Workers cannot tell each other what they serve: %r", exc)
                wait = _AGAIN
            self._report_at = monotonic() + wait
        return min(self._look_at, self._report_at)

    def look(self) -> None:
        """Take in what was set live.

        Raises:
            celery.exceptions.ImproperlyConfigured: the store lets this user have no keys there.
        """
        from redis.exceptions import RedisError

        self._look_at = monotonic() + _EVERY
        try:
            if not self._is_weighed:
                self._lists.weigh()
                self._is_weighed = True
            self._live_weights, limited = self._lists.live()
            self._live_limits = frozenset(limited)
        except (RedisError, OSError) as exc:  # tried again
            logger.debug("Cannot look what keys may: %r", exc)

    def report(self) -> float:
        """Tell and hear; return how many seconds later to do so again."""
        served: dict[str, float] = {}
        while self._told:
            tenant, cost = self._told.popleft()
            served[tenant] = served.get(tenant, 0.0) + cost
        found = self._reports.exchange(served)
        now = monotonic()
        with self._lock:
            self._heard.append((now, found))
            while self._heard[0][0] < now - _OLD:
                _, old = self._heard.popleft()
                _add(
                    {key: cost for key, cost in old.items() if self._waits_here(key)}, self._before
                )
        return self._reports.every * (1 if served or found else _QUIET)


def _add(some: Mapping[str, float], total: dict[str, float]) -> None:
    for tenant, cost in some.items():
        total[tenant] = total.get(tenant, 0.0) + cost


class StoreLinks:
    """Of all queues of a worker that are shared by key.

    Arguments:
        queues: those of ``fair_keys``, by name.
    """

    def __init__(self, store: KeyStore | None, queues: Mapping[str, KeyedQueue]) -> None:
        self._store = store
        self._queues = queues
        self._links: dict[str, StoreLink] = {}
        self._closed = Event()
        self._thread: Thread | None = None

    def of(self, queue: str) -> StoreLink:
        """Return that of a queue, for which the store is looked at from then on.

        Raises:
            celery.exceptions.ImproperlyConfigured: the store lets this user have no keys there.
        """
        link = self._links.get(queue) or StoreLink(self._queues[queue], self._store)
        if self._store is None:
            return link
        link.look()
        self._links = {**self._links, queue: link}
        if self._thread is None:
            self._thread = Thread(target=self._run, name="fair-key-store", daemon=True)
            self._thread.start()
        return link

    def close(self) -> None:
        """Look and tell no more."""
        self._closed.set()

    def _run(self) -> None:
        due = 0.0
        while not self._closed.wait(max(0.0, due - monotonic())):
            due = min(link.work() for link in self._links.values())


class SharedTags(TenantTags):
    """Tells others what is served here, but for what is nobody's, and adds what they serve."""

    __slots__ = ("_elsewhere", "_link")

    def __init__(self, link: StoreLink) -> None:
        super().__init__(link.weight)
        self._link = link
        link.listen(self.tenants.__contains__)
        self._elsewhere = Elsewhere(self.tenants, is_nobodys)

    def serve(self, tenant: str, part: str, charge: float, more: bool) -> Served:
        served = super().serve(tenant, part, charge, more)
        self._elsewhere.served(charge)
        self._tell(tenant, charge)
        return served

    def settle(self, served: Served, difference: float, unused: bool = False) -> None:
        super().settle(served, difference, unused)
        self._elsewhere.settled(difference)
        self._tell(served.tenant, difference)

    def hear(self) -> None:
        """Take in what others have served since it was last done."""
        heard = self._link.heard()
        if heard is not None:
            self._elsewhere.reported(*heard)

    def _tell(self, tenant: str, cost: float) -> None:
        if not is_nobodys(tenant):
            self._link.tell(tenant, cost)
