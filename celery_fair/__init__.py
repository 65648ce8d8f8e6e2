"""A fair, leashed, at-most-once worker for Celery."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from celery_fair.bootstrap import install as install
    from celery_fair.tasks import NonRepeatableTask as NonRepeatableTask
    from celery_fair.worker.letters import message_dead_lettered as message_dead_lettered
    from celery_fair.worker.partitions import GroupStep as GroupStep
    from celery_fair.worker.partitions import partitions_assigned as partitions_assigned
    from celery_fair.worker.partitions import partitions_revoked as partitions_revoked
    from celery_fair.worker.partitions import rebalance_failed as rebalance_failed
    from celery_fair.worker.step import FairConsumerStep as FairConsumerStep

_HOMES = {
    "FairConsumerStep": "celery_fair.worker.step",
    "GroupStep": "celery_fair.worker.partitions",
    "NonRepeatableTask": "celery_fair.tasks",
    "install": "celery_fair.bootstrap",
    "message_dead_lettered": "celery_fair.worker.letters",
    "partitions_assigned": "celery_fair.worker.partitions",
    "partitions_revoked": "celery_fair.worker.partitions",
    "rebalance_failed": "celery_fair.worker.partitions",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
