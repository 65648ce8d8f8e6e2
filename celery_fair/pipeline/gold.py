"""Gold tables, made from a warehouse's silver ones and published there."""

from collections.abc import Callable

from pyspark.sql import DataFrame

from celery_fair.pipeline.audit import audit, replayable
from celery_fair.pipeline.warehouse import Warehouse

__all__ = ["write_audit"]

Say = Callable[[str], None]


def write_audit(warehouse: Warehouse, since: float | None, say: Say) -> DataFrame:
    """Publish the tables `audit` and `replayable`; return the first."""
    say("comparing starts, ends and rejections")
    attempts, processes = warehouse.table("attempts"), warehouse.table("processes")
    run = warehouse.begin()
    audited = run.replace("audit", audit(attempts, processes, since))
    run.replace("replayable", replayable(audited))
    run.publish()
    return audited
