"""A fair, leashed, at-most-once worker for Celery."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from celery_fair.bootstrap import install
    from celery_fair.worker.step import FairConsumerStep

__all__ = ["FairConsumerStep", "install"]

_HOMES = {
    "FairConsumerStep": "celery_fair.worker.step",
    "install": "celery_fair.bootstrap",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
