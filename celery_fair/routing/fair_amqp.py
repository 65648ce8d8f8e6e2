"""An app's ``amqp``, by which it publishes.

What a message passes on its way out is imported with the first one: an app that imports its tasks
and publishes nothing, a web server's at its start say, does not wait for it.
"""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from celery.utils.imports import symbol_by_name

if TYPE_CHECKING:
    from celery.app.amqp import AMQP


def amqp_class(base: Any) -> "type[AMQP]":
    """Return a subclass of an app's ``amqp_cls`` whose sender knows this library's queues."""

    class FairAMQP(symbol_by_name(base)):  # type: ignore[misc]
        knows_levels = True

        @cached_property
        def send_task_message(self) -> Callable[..., Any]:
            from celery_fair.routing.logical import chained

            return chained(self)

    return FairAMQP
