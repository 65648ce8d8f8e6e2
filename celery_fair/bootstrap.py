"""One call for an app: what a publisher and a worker need."""

from typing import TYPE_CHECKING

from celery_fair.routing import declare_queues
from celery_fair.settings import Settings
from celery_fair.worker.step import FairConsumerStep

if TYPE_CHECKING:
    from celery import Celery

__all__ = ["install"]


def install(app: "Celery") -> "Celery":
    """Make `app` fair, and return it.

    Adds `FairConsumerStep` to its workers and, once the app is finalized, the queues of
    ``fair_queues`` to those that it can publish to. Calling it twice does no harm.
    """
    app.steps["consumer"].add(FairConsumerStep)
    app.on_after_finalize.connect(_on_finalize)
    return app


def _on_finalize(sender: "Celery", **_: object) -> None:
    declare_queues(sender, Settings.of(sender))
