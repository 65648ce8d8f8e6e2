"""What a message costs, asked of the user's function, once, when it becomes its queue's head."""

import logging
from collections.abc import Callable
from typing import Any, Literal

from celery_fair.core.dwrr import check_cost
from celery_fair.settings import Cost
from celery_fair.worker.delivery import message_of

__all__ = ["asked", "cost_of"]

logger = logging.getLogger(__name__)


def cost_of(cost: Cost | Literal["runtime"] | None) -> Callable[[Any], float]:
    """Return a function from a delivery (or a request that was put off) to its cost.

    A user's function that fails, or returns no number above zero, costs one and is logged: a
    message is never lost for its price.
    """
    if cost is None or isinstance(cost, str):
        return lambda item: 1.0

    def priced(item: Any) -> float:
        try:
            return check_cost(asked(cost, message_of(item)))
        except Exception as exc:  # noqa: BLE001 - the function is the user's, the message anybody's
            logger.warning("fair_cost failed, the message costs 1: %r", exc)
            return 1.0

    return priced


def asked(function: Callable[..., Any], message: Any) -> Any:
    """Return what a user's function of task, args, kwargs and headers says of a message."""
    headers = message.headers
    args, kwargs, _ = message.payload
    return function(headers["task"], tuple(args), kwargs, headers)
