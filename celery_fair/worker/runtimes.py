"""``fair_cost = "runtime"``: what is shared is processing time.

A message is charged an estimate when it is started. When it has ended, its queue is charged the
difference to what it took, so that in the long run estimates do not matter: they keep the order
even in between.

Costs are seconds here, while a quantum keeps the meaning that it has with messages: a quantum of 1
is worth the mean message. What that is in seconds, the unit, changes when the mean is twice as
long, or half. As long as nothing is known it is one message, which is what each is charged; what
was charged so is converted when the first has ended.
"""

import json
import logging
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any

from celery_fair.core.classes import ClassScheduler
from celery_fair.core.dwrr import DeficitRoundRobin, Flow
from celery_fair.core.runtimes import Estimator
from celery_fair.settings import CostKey
from celery_fair.worker.cost import asked
from celery_fair.worker.delivery import message_of
from celery_fair.worker.served import Served

__all__ = ["Runtimes"]

logger = logging.getLogger(__name__)

_LOOK = 5.0
"""Seconds between two looks at the model's file."""


class Runtimes:
    """Prices messages, and settles them.

    Arguments:
        key_of: what a message's run time is estimated by, besides its task.
        model: the file that ``pipeline costs --export`` writes; loaded again when it changes.

    Attributes:
        unit: seconds that a quantum of 1 is worth; 1.0 as long as nothing is known.
    """

    def __init__(
        self,
        scheduler: DeficitRoundRobin | ClassScheduler,
        key_of: CostKey | None,
        model: str | None,
    ) -> None:
        self.unit = 1.0
        self._scheduler = scheduler
        self._guesses_in: float | None = None  # the first unit, which guesses are converted to
        self._key_of = key_of
        self._model = None if model is None else Path(model)
        self._version: tuple[int, int] | None = None
        self._look_at = 0.0
        self._estimator = Estimator()
        self._ended: deque[tuple[Any, float]] = deque()

    # Of a message -------------------------------------------------------------

    def price(self, item: Any) -> float:
        """Return what a delivery, or a request that was put off, will probably take, in seconds."""
        message = message_of(item)
        message.cost_key = self._key(message)
        known = self._estimator.estimate(_task(message), message.cost_key)
        message.cost_guessed = known is None
        return 1.0 if known is None else known

    def _key(self, message: Any) -> str | None:
        if self._key_of is None:
            return None
        try:
            key = asked(self._key_of, message)
        except Exception as exc:  # noqa: BLE001 - the function is the user's, the message anybody's
            logger.warning("fair_cost_key failed, the message costs what its task does: %r", exc)
            return None
        return None if key is None else str(key)

    def ended(self, request: Any, seconds: float | None) -> None:
        """A request has ended, on any thread; without its run time, that since it was started."""
        message = request.message
        if seconds is None:
            seconds = monotonic() - message.boarded_at
        self._ended.append((message, seconds))

    # Of the scheduler, in its thread ------------------------------------------------

    def settle(self, feeds: Mapping[Flow, Any], served: Served) -> None:
        """Charge what has ended since; load the model if there is a new one."""
        if self._model is not None and monotonic() >= self._look_at:
            self._look_at = monotonic() + _LOOK
            self._load(self._model)
            self._fit(feeds)
        if not self._ended:
            return
        ended = []
        while self._ended:
            message, seconds = self._ended.popleft()
            self._estimator.learn(_task(message), message.cost_key, seconds)
            ended.append((message, seconds))
        self._fit(feeds)
        for message, seconds in ended:
            served.charge(message.feed.name, seconds, monotonic())
            if message.feed.flow in feeds:
                self._scheduler.settle(message.feed.flow, seconds - self._charged(message))

    def _charged(self, message: Any) -> float:
        if message.cost_guessed and self._guesses_in is not None:
            return float(message.cost * self._guesses_in)
        return float(message.cost)

    def _load(self, model: Path) -> None:
        try:
            stat = model.stat()
            if (stat.st_mtime_ns, stat.st_ino) == self._version:
                return
            self._version = stat.st_mtime_ns, stat.st_ino
            self._estimator.load(json.loads(model.read_text()))
        except (OSError, ValueError) as exc:
            logger.warning("fair_cost_model = %r is not loaded: %s", str(model), exc)
        else:
            logger.info("Loaded the run times in %s", model)

    def _fit(self, feeds: Mapping[Flow, Any]) -> None:
        mean = self._estimator.overall
        first = self._guesses_in is None
        if not mean.n or (not first and self.unit / 2 <= mean.value <= self.unit * 2):
            return
        ratio, self.unit = mean.value / self.unit, mean.value
        if first:
            self._guesses_in = self.unit
        for flow, feed in feeds.items():
            self._scheduler.reweight(flow, feed.gate.options.quantum * self.unit)
            # Credit was granted in the old unit: so many messages, not so many seconds.
            if first or (ratio < 1 and flow.deficit > 0):
                self._scheduler.settle(flow, flow.deficit * (1 - ratio))
            if first:
                flow.last_cost *= ratio
            if flow.head is not None:
                head = self.price(feed.buffer[0]) if feed.buffer else flow.last_cost
                self._scheduler.offer(flow, head)


def _task(message: Any) -> str:
    headers = message.headers
    return str(headers.get("task")) if isinstance(headers, dict) else ""
