"""What keys are served, of queues that are shared by key, for `metrics`.

Written by the worker's main thread, read by another, under a lock. Keys may be as many as users;
see `celery_fair.core.sketch` for which of them have figures of their own.
"""

from collections.abc import Callable
from threading import RLock
from time import monotonic, time
from typing import Any

from celery_fair.core.sketch import OTHER, TopKeys
from celery_fair.headers import PUBLISHED, time_of
from celery_fair.worker.dispatch.observed import Observed, Waits

__all__ = ["KeyFigures"]

_PERIOD = 600.0
"""Seconds for which a key keeps its figures, at the least."""


class KeyFigures:
    """Starts by key, and how long the first message of a key waited that had nothing waiting.

    Arguments:
        most: keys of a queue that have figures of their own.
        label: the name that a queue is counted under.
    """

    def __init__(self, most: int, label: Callable[[str], str]) -> None:
        self._most = most
        self._label = label
        self._lock = RLock()  # a cold shutdown comes by within a signal's handler
        self._started: dict[str, TopKeys] = {}
        self._first = Observed(label)

    def note(self, request: Any) -> None:
        """A request is about to be handed to the pool."""
        turn, queue = request.message.turn, request.message.feed.name
        if turn is None:
            return
        with self._lock:
            known = self._started.get(queue)
            if known is None:
                known = self._started[queue] = TopKeys(self._most, _PERIOD)
            known.add(turn.tenant, monotonic())
        published = time_of(request.request_dict.get(PUBLISHED))
        if turn.begins and published is not None:
            self._first.started(queue, max(0.0, time() - published))

    def started(self) -> dict[tuple[str, str], int]:
        """Return how many messages were started, by queue and key."""
        total: dict[tuple[str, str], int] = {}
        with self._lock:
            for queue, known in self._started.items():
                for key, count in known.totals.items():
                    place = (self._label(queue), key)
                    total[place] = total.get(place, 0) + count
        return total

    def running(self, requests: list[Any]) -> dict[tuple[str, str], int]:
        """Return how many of some requests there are by queue and key, of all that have figures."""
        total = dict.fromkeys(self.started(), 0)
        for request in requests:
            turn, queue = request.message.turn, request.message.feed.name
            if turn is not None:
                place = (self._label(queue), turn.tenant)
                place = place if place in total else (place[0], OTHER)
                total[place] = total.get(place, 0) + 1
        return total

    def first_waits(self) -> dict[str, Waits]:
        """Return the waits of messages whose keys had nothing waiting, by queue."""
        return self._first.waits()
