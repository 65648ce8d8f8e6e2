"""What messages cost: what the user's function says when they start, or the time that they took.

With ``fair_cost = "runtime"`` the rules are in `celery_fair.core.pricing`; here are what the user
says of a message, the model's file, and the ends that the pool tells of, on any thread.
"""

import json
import logging
from collections import deque
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

from celery_fair.core.chooser import Chooser, Ended
from celery_fair.core.dwrr import Flow, check_cost
from celery_fair.core.pricing import Price, Pricing
from celery_fair.settings import Cost, CostKey
from celery_fair.worker.dispatch.served import Served
from celery_fair.worker.queues.delivery import message_of

__all__ = ["Costs", "Runtimes", "asked"]

logger = logging.getLogger(__name__)


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

    def ended(self, request: Any, seconds: float | None) -> None:
        """A request has ended, on any thread; without its run time, that since it was started."""
        message = request.message
        if seconds is None:
            seconds = monotonic() - message.boarded_at
        self._ended.append((message, seconds))

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
