"""What a message costs, asked of the user's function, once, when it becomes its queue's head."""

import logging
from collections.abc import Callable
from typing import Any

from celery_fair.core.dwrr import Flow, check_cost
from celery_fair.settings import Cost
from celery_fair.worker.queues.delivery import message_of

__all__ = ["Costs", "asked"]

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
