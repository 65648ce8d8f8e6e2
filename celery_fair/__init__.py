"""A fair, leashed, at-most-once worker for Celery."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from celery_fair.bootstrap import install
    from celery_fair.tasks import NonRepeatableTask
    from celery_fair.worker.dead_letters import message_dead_lettered
    from celery_fair.worker.step import FairConsumerStep

__all__ = ["FairConsumerStep", "NonRepeatableTask", "install", "message_dead_lettered"]

_HOMES = {
    "FairConsumerStep": "celery_fair.worker.step",
    "NonRepeatableTask": "celery_fair.tasks",
    "install": "celery_fair.bootstrap",
    "message_dead_lettered": "celery_fair.worker.dead_letters",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
