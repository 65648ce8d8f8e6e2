"""What messages cost, and what each queue was served: in all, and in the last seconds.

A message costs what the user's function says when it starts, or the time that it took.

With ``fair_cost = "runtime"`` the rules are in `celery_fair.core.pricing`; here are what the user
says of a message, the model's file, and the ends that the pool tells of, on any thread.
"""

import json
import logging
from collections import deque
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from celery_fair.core.chooser import Chooser, Ended
from celery_fair.core.dwrr import Flow
from celery_fair.core.pricing import Price, Pricing, check_cost
from celery_fair.settings import Cost, CostKey
from celery_fair.worker.queues.delivery import message_of

logger = logging.getLogger(__name__)


_SPAN = 10
"""Seconds over which an achieved share is taken."""


class _Second(NamedTuple):
    number: int
    costs: dict[str, float]
    starts: dict[str, int]


class Served:
    """Counts starts and their costs, by queue. Time is an argument."""

    def __init__(self) -> None:
        self.count: dict[str, int] = {}
        self.cost: dict[str, float] = {}
        self._recent: deque[_Second] = deque(maxlen=_SPAN)
        self._first: int | None = None

    def add(self, queue: str, cost: float, now: float) -> None:
        """A message of the queue was started."""
        self.count[queue] = self.count.get(queue, 0) + 1
        self.charge(queue, cost, now)
        starts = self._recent[-1].starts
        starts[queue] = starts.get(queue, 0) + 1

    def charge(self, queue: str, cost: float, now: float) -> None:
        """A message of the queue, started before, has cost so much."""
        self.cost[queue] = self.cost.get(queue, 0.0) + cost
        second = int(now)
        if not self._recent or second != self._recent[-1].number:
            if self._first is None:
                self._first = second
            self._recent.append(_Second(second, {}, {}))
        latest = self._recent[-1].costs
        latest[queue] = latest.get(queue, 0.0) + cost

    def per_second(self, now: float) -> dict[str, tuple[float, float]]:
        """Return each queue's starts, and their cost, per second of the last ten.

        From any thread.
        """
        costs: dict[str, float] = {}
        starts: dict[str, int] = {}
        for second in list(self._recent):  # which may change meanwhile, as may what is in it
            if second.number > int(now) - _SPAN:
                for queue, started in dict(second.starts).items():
                    starts[queue] = starts.get(queue, 0) + started
                for queue, cost in dict(second.costs).items():
                    costs[queue] = costs.get(queue, 0.0) + cost
        known = now - (now if self._first is None else self._first)
        seconds = min(max(known, 1.0), _SPAN - 1 + now % 1)
        return {queue: (starts.get(queue, 0) / seconds, costs[queue] / seconds) for queue in costs}


class Costs:
    """What messages cost when they start: one, or what the user's function says.

    A function that fails, or returns no number above zero, costs one and is logged: a message is
    never lost for its price.

    Arguments:
        cost: the function, of task, args, kwargs and headers; None where each costs one.
    """

    after = False

    def __init__(self, cost: Cost | None) -> None:
        self._cost = cost

    def price(self, item: Any) -> float:
        """Return what a delivery, or a request that was put off, costs."""
        if self._cost is None:
            return 1.0
        try:
            return check_cost(asked(self._cost, message_of(item)))
        except Exception as exc:  # noqa: BLE001 - the function is the user's, the message anybody's
            logger.warning("fair_cost failed, the message costs 1: %r", exc)
            return 1.0

    def usual(self, flow: Flow) -> float:
        """Return what to reckon for a message of a queue that is not here yet."""
        return flow.last_cost

    def settle(self, *_: Any) -> None:
        """What has started is charged already."""


def asked(function: Callable[..., Any], message: Any) -> Any:
    """Return what a user's function of task, args, kwargs and headers says of a message."""
    headers = message.headers
    args, kwargs, _ = message.payload
    return function(headers["task"], tuple(args), kwargs, headers)


_LOOK = 5.0
"""Seconds between two looks at the model's file."""


class Runtimes:
    """Prices messages, and settles them.

    Arguments:
        pricing: the chooser's.
        key_of: what a message's run time is estimated by, besides its task.
        model: the file that ``pipeline costs --export`` writes; loaded again when it changes.
    """

    def __init__(self, pricing: Pricing, key_of: CostKey | None, model: str | None) -> None:
        self._pricing = pricing
        self._key_of = key_of
        self._model = None if model is None else Path(model)
        self._version: tuple[int, int] | None = None
        self._look_at = 0.0
        self._ended: deque[tuple[Any, float]] = deque()

    after = True

    # Of a message -------------------------------------------------------------

    def price(self, item: Any) -> float:
        """Return what a delivery, or a request that was put off, will probably take, in seconds."""
        message = message_of(item)
        key = self._key(message)
        cost, guessed = self._pricing.price(_task(message), key)
        message.estimate(key, guessed)
        return cost

    def _key(self, message: Any) -> str | None:
        if self._key_of is None:
            return None
        try:
            key = asked(self._key_of, message)
        except Exception as exc:  # noqa: BLE001 - the function is the user's, the message anybody's
            logger.warning("fair_cost_key failed, the message costs what its task does: %r", exc)
            return None
        return None if key is None else str(key)

    def usual(self, flow: Flow) -> float:
        """Return what to reckon for a message of a queue that is not here yet, in seconds."""
        return self._pricing.usual

    def ended(self, request: Any, seconds: float) -> None:
        """A request has ended, on any thread, after so long."""
        self._ended.append((request.message, seconds))

    # Of the scheduler, in its thread ------------------------------------------------

    def settle(
        self, chooser: Chooser, served: Served, price: Callable[[Flow], float | None]
    ) -> None:
        """Charge what has ended since; load the model if there is a new one."""
        if self._model is not None and monotonic() >= self._look_at:
            self._look_at = monotonic() + _LOOK
            self._load(self._model)
            chooser.fit(price)
        if not self._ended:
            return
        ended = []
        while self._ended:
            message, seconds = self._ended.popleft()
            charged = Price(message.cost, message.cost_guessed)
            flow = message.feed.flow
            ended.append(Ended(flow, _task(message), message.cost_key, charged, seconds))
            served.charge(message.feed.name, seconds, monotonic())
        chooser.ended(ended, price)

    def _load(self, model: Path) -> None:
        try:
            stat = model.stat()
            if (stat.st_mtime_ns, stat.st_ino) == self._version:
                return
            self._version = stat.st_mtime_ns, stat.st_ino
            self._pricing.load(json.loads(model.read_text()))
        except (OSError, ValueError) as exc:
            logger.warning("fair_cost_model = %r is not loaded: %s", str(model), exc)
        else:
            logger.info("Loaded the run times in %s", model)


def _task(message: Any) -> str:
    headers = message.headers
    return str(headers.get("task")) if isinstance(headers, dict) else ""
