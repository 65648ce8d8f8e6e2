"""What a worker is watched for, for `metrics`: waits, what holds queues back, keys, dead letters.

Written by the worker's main thread, or whichever thread buries, and read by another, under a lock:
a counter that ever went back would count as a restart of the worker. Keys may be as many as users;
see `celery_fair.core.keys.sketch` for which of them have figures of their own.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from threading import RLock
from time import monotonic, time
from typing import Any, NamedTuple

from celery_fair.core.keys.sketch import OTHER, TopKeys
from celery_fair.headers import PUBLISHED, time_of
from celery_fair.worker.letters import message_dead_lettered

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of the classes that waits are counted in, in seconds; one more has none."""

_MOST_KEYS = 20
"""Keys of a queue that have figures of their own: who takes most is among the first few."""

_PERIOD = 600.0
"""Seconds for which a key keeps its figures, at the least."""


class Waits(NamedTuple):
    """The waits of a queue's messages: how many in each class, and their sum in seconds."""

    counts: list[int]
    seconds: float


class Labels:
    """Which label a queue's figures go by: its name, for so many queues, else "other".

    Arguments:
        most: how many queues have a label of their own.
        first: these do, before all others.
    """

    def __init__(self, most: int, first: Iterable[str] = ()) -> None:
        self._most = most
        self._known = set(list(first)[:most])

    def of(self, queue: str) -> str:
        """Return the queue's label. From any thread."""
        if queue in self._known:
            return queue
        if len(self._known) >= self._most:
            return OTHER
        self._known.add(queue)
        return queue


class Observed:
    """Waits, starts by key and dead letters, by queue; held seconds by queue and reason.

    Arguments:
        label: the name that a queue is counted under.
    """

    def __init__(self, label: Callable[[str], str]) -> None:
        self.label = label
        self._lock = RLock()  # a cold shutdown comes by within a signal's handler
        self._waits: dict[str, Waits] = {}
        self._first_waits: dict[str, Waits] = {}
        self._held: dict[tuple[str, str], float] = {}
        self._open: dict[str, tuple[str, float]] = {}  # by queue: the reason, and since when
        self._keys = defaultdict[str, TopKeys](lambda: TopKeys(_MOST_KEYS, _PERIOD))
        self._dead_letters: Counter[tuple[str, str]] = Counter()
        message_dead_lettered.connect(self._on_dead_letter)

    def started(self, queue: str, waited: float, first: bool = False) -> None:
        """A message of the queue was started, so many seconds after it came to the worker.

        Arguments:
            first: whether it is the first of a key that had nothing waiting; it waited since it was
                published then.
        """
        label, waits = self.label(queue), self._first_waits if first else self._waits
        with self._lock:
            counts, seconds = waits.get(label) or ([0] * (len(BOUNDS) + 1), 0.0)
            counts[bisect_left(BOUNDS, waited)] += 1
            waits[label] = Waits(counts, seconds + waited)

    def waits(self, first: bool = False) -> dict[str, Waits]:
        """Return all waits so far, by label."""
        waits = self._first_waits if first else self._waits
        with self._lock:
            return {label: Waits(list(w.counts), w.seconds) for label, w in waits.items()}

    def held(self, queue: str, reason: str, now: float) -> None:
        """The queue has a message and may not start it, for whichever reason from now on."""
        self.released(queue, now)
        with self._lock:
            self._open[queue] = (reason, now)

    def released(self, queue: str, now: float) -> None:
        """It may, or it is consumed no more."""
        label = self.label(queue)
        with self._lock:
            if queue in self._open:
                reason, since = self._open.pop(queue)
                key = (label, reason)
                self._held[key] = self._held.get(key, 0.0) + now - since

    def held_seconds(self, now: float) -> dict[tuple[str, str], float]:
        """Return the seconds held back so far, by label and reason, those that go on included."""
        with self._lock:
            total = dict(self._held)
            for queue, (reason, since) in self._open.items():
                key = (self.label(queue), reason)
                total[key] = total.get(key, 0.0) + now - since
            return total

    def note(self, request: Any) -> None:
        """A request is about to be handed to the pool."""
        turn, queue = request.message.turn, request.message.feed.name
        if turn is None:
            return
        with self._lock:
            self._keys[queue].add(turn.tenant, monotonic())
        published = time_of(request.request_dict.get(PUBLISHED))
        if turn.begins and published is not None:
            self.started(queue, max(0.0, time() - published), first=True)

    def started_by_key(self) -> Counter[tuple[str, str]]:
        """Return how many messages were started, by label and key."""
        total: Counter[tuple[str, str]] = Counter()
        with self._lock:
            for queue, known in self._keys.items():
                for key, count in known.totals.items():
                    total[self.label(queue), key] += count
        return total

    def running_by_key(self, requests: Iterable[Any]) -> Counter[tuple[str, str]]:
        """Return how many of some requests there are by label and key, of all that have figures."""
        total = Counter(dict.fromkeys(self.started_by_key(), 0))
        for request in requests:
            turn, queue = request.message.turn, request.message.feed.name
            if turn is not None:
                label = self.label(queue)
                total[label, turn.tenant if (label, turn.tenant) in total else OTHER] += 1
        return total

    def dead_letters(self) -> dict[tuple[str, str], int]:
        """Return how many there were so far, by label and reason."""
        with self._lock:
            return dict(self._dead_letters)

    def _on_dead_letter(self, headers: Mapping[str, Any], **_: Any) -> None:
        place = self.label(headers["x-fair-queue"]), headers["x-fair-reason"]
        with self._lock:
            self._dead_letters[place] += 1
