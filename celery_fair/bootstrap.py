"""One call for an app: what a publisher and a worker need.

What a message passes on its way out is imported with the first one: an app that imports its tasks
and publishes nothing, a web server's at its start say, does not wait for it.
"""

import sys
from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from celery.signals import celeryd_init
from celery.utils.imports import symbol_by_name

from celery_fair.hidden import hide

if TYPE_CHECKING:
    from celery import Celery
    from celery.app.amqp import AMQP

_STEP = "celery_fair.worker.step"
_STEPS = (
    f"{_STEP}:FairConsumerStep",
    "celery_fair.worker.partitions:GroupStep",
)
"""By their names, which Celery takes too: who publishes needs nothing of a worker."""


def install(app: "Celery") -> "Celery":
    """Make `app` fair, and return it.

    Adds `FairConsumerStep` and `GroupStep` to its workers, teaches its publishing side the logical
    and the partitioned queues, and, once the app is finalized, adds the queues of ``fair_queues``
    to those that it can publish to. Calling it twice does no harm. Call it where the app is made,
    before anything is published.
    """
    hide()
    app.steps["consumer"].update(_STEPS)
    celeryd_init.connect(_on_worker_init)
    if "celery.worker.control" in sys.modules:  # a command of Celery's, which is to know ours
        from celery_fair.worker import control  # noqa: F401
    if not getattr(app.amqp_cls, "knows_levels", False):
        app.amqp_cls = _amqp_class(app.amqp_cls)  # type: ignore[assignment]
        vars(app).pop("amqp", None)  # in case somebody looked already
    app.on_after_finalize.connect(_on_finalize)
    return app


def _amqp_class(base: Any) -> "type[AMQP]":
    """Return a subclass of an app's ``amqp_cls`` whose sender knows this library's queues."""

    class FairAMQP(symbol_by_name(base)):  # type: ignore[misc]
        knows_levels = True

        @cached_property
        def send_task_message(self) -> Callable[..., Any]:
            from celery_fair.routing.sender import sender

            return sender(self)

    return FairAMQP


def _on_worker_init(**named: object) -> None:
    """Have the worker's step hear of a start that it is imported by."""
    if _STEP not in sys.modules:
        import_module(_STEP).before_queues_are_selected(**named)


def _on_finalize(sender: "Celery", **_: object) -> None:
    from celery_fair.routing.declared import declare_queues
    from celery_fair.settings import Settings

    declare_queues(sender, Settings.of(sender))
