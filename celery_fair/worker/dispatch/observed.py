"""What the dispatcher is watched for: how long messages waited, how long queues were held back.

Written by the worker's main thread, read by another, under a lock: a counter that ever went back
would count as a restart of the worker.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from threading import Lock, RLock
from typing import NamedTuple

from celery_fair.core.sketch import OTHER

__all__ = ["BOUNDS", "Labels", "Observed", "Waits"]

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of the classes that waits are counted in, in seconds; one more has none."""


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
        self._lock = Lock()
        self._known = set(list(first)[:most])

    def of(self, queue: str) -> str:
        """Return the queue's label. From any thread."""
        if queue in self._known:
            return queue
        with self._lock:
            if len(self._known) >= self._most:
                return OTHER
            self._known.add(queue)
            return queue


class Observed:
    """Waits by queue, held seconds by queue and reason. Time is an argument.

    Arguments:
        label: the name that a queue is counted under.
    """

    def __init__(self, label: Callable[[str], str]) -> None:
        self._label = label
        self._lock = RLock()  # a cold shutdown comes by within a signal's handler
        self._waits: dict[str, Waits] = {}
        self._held: dict[tuple[str, str], float] = {}
        self._open: dict[str, tuple[str, float]] = {}  # by queue: the reason, and since when

    def started(self, queue: str, waited: float) -> None:
        """A message of the queue was started, so many seconds after it came to the worker."""
        label = self._label(queue)
        with self._lock:
            counts, seconds = self._waits.get(label) or ([0] * (len(BOUNDS) + 1), 0.0)
            counts[bisect_left(BOUNDS, waited)] += 1
            self._waits[label] = Waits(counts, seconds + waited)

    def held(self, queue: str, reason: str, now: float) -> None:
        """The queue has a message and may not start it."""
        with self._lock:
            self._open[queue] = (reason, now)

    def released(self, queue: str, now: float) -> None:
        """It may, or it is consumed no more."""
        label = self._label(queue)
        with self._lock:
            if queue in self._open:
                reason, since = self._open.pop(queue)
                key = (label, reason)
                self._held[key] = self._held.get(key, 0.0) + now - since

    def waits(self) -> dict[str, Waits]:
        """Return all waits so far, by label."""
        with self._lock:
            return {label: Waits(list(w.counts), w.seconds) for label, w in self._waits.items()}

    def held_seconds(self, now: float) -> dict[tuple[str, str], float]:
        """Return the seconds held back so far, by label and reason, those that go on included."""
        with self._lock:
            total = dict(self._held)
            for queue, (reason, since) in self._open.items():
                key = (self._label(queue), reason)
                total[key] = total.get(key, 0.0) + now - since
            return total
