"""One call for an app: what a publisher and a worker need."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from celery.signals import celeryd_init

from celery_fair.hidden import hide
from celery_fair.routing.fair_amqp import amqp_class

if TYPE_CHECKING:
    from celery import Celery

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
        app.amqp_cls = amqp_class(app.amqp_cls)  # type: ignore[assignment]
        vars(app).pop("amqp", None)  # in case somebody looked already
    app.on_after_finalize.connect(_on_finalize)
    return app


def _on_worker_init(**named: object) -> None:
    """Have the worker's step hear of a start that it is imported by."""
    if _STEP not in sys.modules:
        import_module(_STEP).before_queues_are_selected(**named)


def _on_finalize(sender: "Celery", **_: object) -> None:
    from celery_fair.routing.declared import declare_queues
    from celery_fair.settings import Settings

    declare_queues(sender, Settings.of(sender))
