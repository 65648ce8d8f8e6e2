"""Keeps the windows of a worker's feeds at their planned sizes."""

from collections.abc import Iterable, Mapping
from typing import Any

from celery_fair.core.dwrr import DeficitRoundRobin
from celery_fair.core.window import RefillMeter, plan
from celery_fair.settings import Settings
from celery_fair.worker.feed import Feed

__all__ = ["Sizing"]

_EVERY = 0.1
"""Seconds between two looks at the windows, while messages are started."""


class Sizing:
    """Plans windows by the quanta, mean costs, rate and refill delay that are known now."""

    def __init__(
        self, settings: Settings, scheduler: DeficitRoundRobin, meter: RefillMeter
    ) -> None:
        self._settings = settings
        self._scheduler = scheduler
        self._meter = meter
        self._next = 0.0

    def first(self, queue: str, queues: Iterable[Any], least_total: int) -> int:
        """Return the window that a queue starts with, among `queues`."""
        weights = {q.name: self._settings.queue(q.name).quantum for q in queues}
        weights[queue] = self._settings.queue(queue).quantum
        return self._settings.queue(queue).prefetch or self._plan(weights, least_total)[queue]

    def adapt(self, feeds: Iterable[Feed], now: float, least_total: int) -> None:
        """Resize what needs it, at most every tenth of a second."""
        if now < self._next:
            return
        self._next = now + _EVERY
        self._meter.interval(now)
        windows = self._plan(
            {flow.key: flow.quantum / flow.last_cost for flow in self._scheduler}, least_total
        )
        for feed in feeds:
            if self._settings.queue(feed.name).prefetch is None:
                feed.resize(windows[feed.name])

    def _plan(self, weights: Mapping[str, float], least_total: int) -> dict[str, int]:
        return plan(weights, self._meter.rate, self._meter.delay, least_total)
