"""One call for an app: what a publisher and a worker need."""

from typing import TYPE_CHECKING

from celery_fair.routing.declared import declare_queues
from celery_fair.routing.logical import amqp_class
from celery_fair.settings import Settings
from celery_fair.worker.group_step import GroupStep
from celery_fair.worker.step import FairConsumerStep

if TYPE_CHECKING:
    from celery import Celery

__all__ = ["install"]


def install(app: "Celery") -> "Celery":
    """Make `app` fair, and return it.

    Adds `FairConsumerStep` and `GroupStep` to its workers, teaches its publishing side the logical
    and the partitioned queues, and, once the app is finalized, adds the queues of ``fair_queues``
    to those that it can publish to. Calling it twice does no harm. Call it where the app is made,
    before anything is published.
    """
    app.steps["consumer"].add(FairConsumerStep)
    app.steps["consumer"].add(GroupStep)
    if not getattr(app.amqp_cls, "knows_levels", False):
        app.amqp_cls = amqp_class(app.amqp_cls)  # type: ignore[assignment]
        vars(app).pop("amqp", None)  # in case somebody looked already
    app.on_after_finalize.connect(_on_finalize)
    return app


def _on_finalize(sender: "Celery", **_: object) -> None:
    declare_queues(sender, Settings.of(sender))
