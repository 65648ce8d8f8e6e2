"""Keeps the windows of a worker's feeds at their planned sizes."""

import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from celery_fair.core.window import LEAST, RefillMeter, plan
from celery_fair.settings import QueueOptions
from celery_fair.worker.queues.feed import Feed

_EVERY = 0.1
"""Seconds between two looks at the windows, while messages are started."""

_LEASHED_SECONDS = 5
"""A leashed queue's window: its burst, and what its rate lets start in so many seconds."""

_EXCLUSIVE = 200
"""An exclusive queue's window. No other worker goes short of what is held here, and a window that
adapts would open the queue to another worker with every change of its size."""

_MOST_DOUBLINGS = 10

_STILL = 0.1
"""Messages per second below which a worker rests: its windows are as small as they become."""


class Sizing:
    """Plans windows by the quanta, mean costs, rate and refill delay that are known now.

    Arguments:
        options_of: a queue's options, as they are now.
        meter: the worker's rate, and the broker's delay.
    """

    def __init__(self, options_of: Callable[[str], QueueOptions], meter: RefillMeter) -> None:
        self._options_of = options_of
        self._meter = meter
        self._next = 0.0
        self._rests = False
        self._planned: tuple[frozenset[str], int] | None = None
        self._plan_of_all: dict[str, int] = {}
        self._due: deque[tuple[Feed, int]] = deque()

    def first(self, queue: str, queues: Iterable[Any], least_total: int) -> int:
        """Return the window that a queue starts with, among `queues`."""
        asked = frozenset([*(q.name for q in queues), queue]), least_total
        if asked != self._planned:  # a worker starts all its queues one after the other
            options = {name: self._options_of(name) for name in asked[0]}
            messages = {name: each.quantum for name, each in options.items()}
            self._planned = asked
            self._plan_of_all = self._plan(_weights(messages, options), least_total)
        return self._bounded(self._options_of(queue), self._plan_of_all[queue])

    def at_once(self) -> None:
        """Look at the windows in the dispatcher's next turn, whatever the time."""
        self._due.clear()
        self._next = 0.0
        self._rests = False
        self._planned = None

    def adapt(self, feeds: Collection[Feed], now: float, least_total: int) -> bool:
        """Resize what needs it, looked for every tenth of a second; once, while nothing starts.

        One queue with each call: on AMQP another window takes some of the broker's answers, for
        which the worker waits. Returns whether all that was planned is done.
        """
        if not self._due and now >= self._next:
            self._next = now + _EVERY
            self._planned = None
            self._meter.interval(now)
            rested, self._rests = self._rests, self._meter.rate < _STILL
            if not (rested and self._rests):
                self._due.extend(self._windows(list(feeds), least_total))
        while self._due:
            feed, window = self._due.popleft()
            options = feed.gate.options
            if feed in feeds and feed.resize(window, options.prefetch is not None, _most(options)):
                break
        return not self._due

    def _windows(self, feeds: list[Feed], least_total: int) -> Iterator[tuple[Feed, int]]:
        messages = {feed.name: feed.flow.quantum / feed.flow.last_cost for feed in feeds}
        weights = _weights(messages, {feed.name: feed.gate.options for feed in feeds})
        windows = self._plan(weights, least_total) if weights else {}
        for feed in feeds:
            yield feed, self._bounded(feed.gate.options, windows[feed.name])

    @staticmethod
    def _bounded(options: QueueOptions, window: int) -> int:
        if options.prefetch is not None:
            return options.prefetch
        if options.exclusive:
            window = _EXCLUSIVE
        return int(min(window, _most(options)))

    def _plan(self, weights: Mapping[str, float], least_total: int) -> dict[str, int]:
        return plan(weights, self._meter.rate, self._meter.delay, least_total)


def _weights(
    messages: Mapping[str, float], options: Mapping[str, QueueOptions]
) -> dict[str, float]:
    """Return what windows are in proportion to: messages that a round serves, as a rule.

    What is urgent shall not wait for its refill: windows double per class, and one of a queue with
    a target is as large as any.
    """
    found = {
        name: count * 2.0 ** min(options[name].level, _MOST_DOUBLINGS)
        for name, count in messages.items()
    }
    largest = max(found.values(), default=0.0)
    aimed = (name for name in found if options[name].target is not None)
    return found | dict.fromkeys(aimed, largest)


def _most(options: QueueOptions) -> float:
    """Return what a leash bounds the window to, unless the user says otherwise."""
    if options.rate is None or options.prefetch is not None:
        return math.inf
    return max(LEAST, math.ceil(options.burst + options.rate * _LEASHED_SECONDS))
