"""A fair, leashed, at-most-once worker for Celery."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from celery_fair.worker.step import FairConsumerStep

__all__ = ["FairConsumerStep"]

_HOMES = {"FairConsumerStep": "celery_fair.worker.step"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
