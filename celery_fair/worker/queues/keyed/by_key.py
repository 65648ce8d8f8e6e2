"""What those feeds have in common that choose by key, and what a worker keeps for all of them."""

import math
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

from celery_fair.brokers.keyed.store import KeyStore
from celery_fair.core.keys.tags import Turn
from celery_fair.settings import KeyedQueue
from celery_fair.tasks import non_repeatable
from celery_fair.worker.queues.delivery import message_of
from celery_fair.worker.queues.keyed.key_slots import KeySlots
from celery_fair.worker.queues.keyed.store import StoreLink, StoreLinks
from celery_fair.worker.queues.pulled import Pulled

LONG = 0.25
"""Seconds after which one that has not started goes back: what runs now takes longer."""


class KeyedParts(NamedTuple):
    """What a feed is given besides whose queue is shared by key.

    Attributes:
        keyed: its entry in ``fair_keys``.
        places: of capped keys' messages.
        asks_ahead: whether more may be asked for than start at once. What is held unstarted comes
            back as redelivered if the worker is killed, or its connection lost: where tasks are
            non-repeatable, those would become dead letters.
        link: to the store of keys, where the broker is none.
        usual: returns what to reckon for a message that is not here yet.
        free: returns how many slots are free.
        later: calls something after so many seconds.
    """

    keyed: KeyedQueue
    places: KeySlots
    asks_ahead: bool
    link: StoreLink
    usual: Callable[[], float]
    free: Callable[[], int]
    later: Callable[[float, Callable[[], object]], object]


class Keys:
    """What a worker keeps of all its queues that are shared by key, as long as it lives.

    Arguments:
        queues: those of ``fair_keys``, by name.
        store: of keys, where the broker is none.
        connect: returns a new connection to the broker, or the store.
    """

    def __init__(
        self,
        app: Any,
        queues: Mapping[str, KeyedQueue],
        store: KeyStore | None,
        connect: Callable[[], Any],
    ) -> None:
        self._queues = queues
        self._places = KeySlots(connect, queues)
        self._asks_ahead = not non_repeatable(app)
        self._links = StoreLinks(store, queues)

    def __contains__(self, queue: str) -> bool:
        return queue in self._queues

    def parts(
        self,
        queue: str,
        usual: Callable[[], float],
        free: Callable[[], int],
        later: Callable[[float, Callable[[], object]], object],
    ) -> KeyedParts:
        """Return what a queue's feed is given.

        Raises:
            celery.exceptions.ImproperlyConfigured: the store lets this user have no keys there.
        """
        keyed, link = self._queues[queue], self._links.of(queue)
        return KeyedParts(keyed, self._places, self._asks_ahead, link, usual, free, later)

    def close(self) -> None:
        """Tell the store, or the broker, what is left to be told."""
        self._links.close()
        self._places.close()


class Seen(TypedDict):
    """What a worker knows of a queue's keys."""

    known: Sequence[int]
    """Numbers of lanes of which it is known whose message was in them last."""
    lanes: Sequence[tuple[int, str, str]]
    """Some of those, with the tenant and the part."""
    started: Mapping[str, int]
    """Messages by tenant, in this minute and the one before."""
    weights: Mapping[str, float]
    """Of tenants."""
    ahead: Mapping[str, float]
    """How far tenants' tags are ahead of where newcomers begin."""


class KeyedFeed(Pulled):
    """Messages come by turns (see `celery_fair.core.keys.tags.Turn`), which are settled.

    Keys may have caps: some messages have places, which they leave. It chooses by key itself whose
    message is next: by Redis's scripts, or by lanes with tags of the worker's own, or such that
    workers share.

    Arguments:
        parts: what it is given besides.
    """

    _most_waiting = math.inf  # what has come due, and may not start yet, keeps nobody else from it

    def __init__(self, *args: Any, parts: KeyedParts, **options: Any) -> None:
        super().__init__(*args, **options)
        self.by_key = self
        self._usual, self._later = parts.usual, parts.later
        self._leases = parts.places
        self._settled: deque[tuple[Turn, float]] = deque()  # appended to by any thread

    @abstractmethod
    def live_weights(self) -> Mapping[str, float]:
        """Return the weights that keys were given live."""

    def seen(self, tenant: str | None) -> Seen | None:
        """Return what this worker knows of the keys, if their broker does not know it.

        Arguments:
            tenant: of this one; None: of those that have most.
        """
        return None

    def charged(self, item: Any, cost: float) -> None:
        """What was taken costs so much, as far as it is known; nothing if it did not start.

        Then it leaves its place, unless it waits for a limit of Celery's alone.
        """
        message = message_of(item)
        turn: Turn | None = message.turn
        if turn is not None and cost != turn.charged:
            self._settled.append((turn, cost - turn.charged))
            message.come_by(turn._replace(charged=cost))
        if not cost and message.aside != "limit":
            self._leases.leave(self.name, message, unused=True)

    def ended(self, message: Any) -> None:
        """The task of a message has ended; any thread may say so."""
        if self._leases.leave(self.name, message, unused=False):
            self._ask_at = 0.0  # its key may have waited for that

    def settled(self, message: Any) -> None:
        if message.aside:  # it was revoked, or has expired; what comes due is not aside any more
            self._leases.leave(self.name, message, unused=True)
        super().settled(message)

    def take(self, now: float, started: int) -> Any:
        """Return the next message that has its place still, if it needs one."""
        item = super().take(now, started)
        while item is not None and not self._leases.holds(self.name, message_of(item)):
            self.charged(item, 0.0)
            self._return(item)
            item = super().take(now, started)
        return item

    def _return(self, item: Any) -> None:
        """A message is to come again, as it has lost its place before it has started."""
        self.dispositions.give_back([message_of(item)])

    def _give_back(self, late: Sequence[Any]) -> None:
        """Let other workers have what was to start soon, and has not; and its keys their places.

        Meanwhile nobody starts it: the broker's answer may be waited for beside the dispatcher.
        """
        for message in late:
            self.buffer.remove(message)
        try:
            self.dispositions.give_back(late)
        finally:
            self.buffer.extendleft(m for m in reversed(late) if not (m.acknowledged or self.dead))
        for message in late:
            self.charged(message, 0.0)

    def die(self) -> None:
        for message in [*map(message_of, self.buffer), *self.aside.messages]:
            self._leases.leave(self.name, message, unused=True)
        super().die()
