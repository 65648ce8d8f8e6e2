"""Gold tables, made from a warehouse's silver ones and published there."""

from collections.abc import Callable

from pyspark.sql import DataFrame

from celery_fair.pipeline.gold.audit import audit, changes, replayable
from celery_fair.pipeline.gold.audit_by_key import audit_by_key
from celery_fair.pipeline.gold.capacity import capacity
from celery_fair.pipeline.gold.costs import costs, costs_by_key
from celery_fair.pipeline.gold.doubts import doubts
from celery_fair.pipeline.gold.fairness import fairness
from celery_fair.pipeline.gold.fairness_by_key import fairness_by_key
from celery_fair.pipeline.gold.noisy import noisy
from celery_fair.pipeline.gold.waits import first_waits, first_waits_by_key, waits, waits_by_key
from celery_fair.pipeline.warehouse import Warehouse

__all__ = [
    "write_audit",
    "write_audit_by_key",
    "write_capacity",
    "write_costs",
    "write_costs_by_key",
    "write_fairness",
    "write_fairness_by_key",
    "write_first_waits",
    "write_first_waits_by_key",
    "write_waits",
    "write_waits_by_key",
]

Say = Callable[[str], None]


def write_audit(
    warehouse: Warehouse, since: float | None, say: Say, within: float | None = None
) -> DataFrame:
    """Publish the tables `audit`, `replayable`, `doubts` and `changes`; return the first.

    Arguments:
        since, within: see `celery_fair.pipeline.gold.audit`.
    """
    say("comparing starts, ends and rejections")
    with warehouse.publishing() as run:
        attempts, processes, gaps, unread = map(
            run.table, ("attempts", "processes", "gaps", "unread")
        )
        unreadable, before = (
            run.table(name) if run.has(name) else None for name in ("unreadable", "audit")
        )
        doubted = run.replace("doubts", doubts(processes, gaps, unread, unreadable))
        audited = run.replace("audit", audit(attempts, processes, doubted, since, within))
        run.replace("replayable", replayable(audited))
        run.replace("changes", changes(before, audited))
    return audited


def write_fairness(warehouse: Warehouse, interval: float, tolerance: float, say: Say) -> DataFrame:
    """Publish the table `fairness`; return it."""
    say("adding up what each queue was due")
    with warehouse.publishing() as run:
        attempts, backlog, processes = map(run.table, ("attempts", "backlog", "processes"))
        rows = fairness(attempts, backlog, processes, interval, tolerance)
        return run.replace("fairness", rows)


def write_audit_by_key(warehouse: Warehouse, audited: DataFrame, say: Say) -> DataFrame:
    """Publish the table `audit_by_key`, made of `audit`; return it."""
    say("counting verdicts by key")
    with warehouse.publishing() as run:
        return run.replace("audit_by_key", audit_by_key(audited))


def write_fairness_by_key(
    warehouse: Warehouse, interval: float, tolerance: float, say: Say
) -> tuple[DataFrame, DataFrame]:
    """Publish the tables `fairness_by_key` and `noisy`; return both."""
    say("adding up what each key was due")
    with warehouse.publishing() as run:
        attempts, processes, shared = map(run.table, ("attempts", "processes", "settings"))
        rows = fairness_by_key(attempts, processes, shared, interval, tolerance)
        made = run.replace("fairness_by_key", rows)
        loud = run.replace("noisy", noisy(attempts, made, interval))
    return made, loud


def write_capacity(warehouse: Warehouse, interval: float, say: Say) -> DataFrame:
    """Publish the table `capacity`; return it."""
    say("adding up busy slots")
    with warehouse.publishing() as run:
        rows = capacity(run.table("attempts"), run.table("processes"), interval)
        return run.replace("capacity", rows)


def write_waits(warehouse: Warehouse, say: Say) -> DataFrame:
    """Publish the table `waits`; return it."""
    say("sorting waits")
    return _of_attempts(warehouse, "waits", waits)


def write_waits_by_key(warehouse: Warehouse, say: Say) -> DataFrame:
    """Publish the table `waits_by_key`; return it."""
    say("sorting waits")
    return _of_attempts(warehouse, "waits_by_key", waits_by_key)


def write_first_waits(warehouse: Warehouse, say: Say) -> DataFrame:
    """Publish the table `first_waits`; return it."""
    say("sorting waits of those who had nothing waiting")
    return _of_attempts(warehouse, "first_waits", first_waits)


def write_first_waits_by_key(warehouse: Warehouse, say: Say) -> DataFrame:
    """Publish the table `first_waits_by_key`; return it."""
    say("sorting waits of those who had nothing waiting")
    return _of_attempts(warehouse, "first_waits_by_key", first_waits_by_key)


def write_costs_by_key(warehouse: Warehouse, say: Say) -> DataFrame:
    """Publish the table `costs_by_key`; return it."""
    say("adding up run times by key")
    return _of_attempts(warehouse, "costs_by_key", costs_by_key)


def write_costs(warehouse: Warehouse, say: Say) -> DataFrame:
    """Publish the table `costs`; return it."""
    say("averaging run times")
    return _of_attempts(warehouse, "costs", costs)


def _of_attempts(
    warehouse: Warehouse, name: str, make: Callable[[DataFrame], DataFrame]
) -> DataFrame:
    with warehouse.publishing() as run:
        return run.replace(name, make(run.table("attempts")))
