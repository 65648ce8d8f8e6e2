"""Gold tables, made from a warehouse's silver ones and published there.

Who makes a table is called as the table is, and its arguments without a default as those that it is
made of.
"""

from collections.abc import Callable
from functools import partial
from inspect import Parameter, signature
from typing import Any

from pyspark.sql import DataFrame

from celery_fair.pipeline.gold.audit import audit, audit_by_key, changes, replayable
from celery_fair.pipeline.gold.costs import costs, costs_by_key
from celery_fair.pipeline.gold.doubts import doubts
from celery_fair.pipeline.gold.fairness import fairness
from celery_fair.pipeline.gold.fairness_by_key import fairness_by_key
from celery_fair.pipeline.gold.waits import (
    capacity,
    first_waits,
    first_waits_by_key,
    waits,
    waits_by_key,
)
from celery_fair.pipeline.warehouse import Run, Warehouse

Say = Callable[[str], None]
_Make = Callable[..., DataFrame]


def _write(warehouse: Warehouse, say: Say, *, make: _Make, told: str, **given: Any) -> DataFrame:
    """Publish a table; return it.

    Arguments:
        told: what is said meanwhile.
        given: those arguments of `make` that are no tables of the warehouse.
    """
    say(told)
    with warehouse.publishing() as run:
        return _made(run, make, **given)


def _made(run: Run, make: _Make, **given: Any) -> DataFrame:
    named = [each for each in signature(make).parameters.values() if each.name not in given]
    tables = {each.name: run.table(each.name) for each in named if each.default is Parameter.empty}
    return run.replace(make.__name__, make(**tables, **given))


write_waits = partial(_write, make=waits, told="sorting waits")
write_waits_by_key = partial(_write, make=waits_by_key, told="sorting waits")
_FIRST = "sorting waits of those who had nothing waiting"
write_first_waits = partial(_write, make=first_waits, told=_FIRST)
write_first_waits_by_key = partial(_write, make=first_waits_by_key, told=_FIRST)
write_costs = partial(_write, make=costs, told="averaging run times")
write_costs_by_key = partial(_write, make=costs_by_key, told="adding up run times by key")


def write_audit(
    warehouse: Warehouse, since: float | None, say: Say, within: float | None = None
) -> DataFrame:
    """Publish the tables `audit`, `replayable`, `doubts` and `changes`; return the first.

    Arguments:
        since, within: see `celery_fair.pipeline.gold.audit`.
    """
    say("comparing starts, ends and rejections")
    with warehouse.publishing() as run:
        unreadable, before = (
            run.table(name) if run.has(name) else None for name in ("unreadable", "audit")
        )
        _made(run, doubts, unreadable=unreadable)
        audited = _made(run, audit, since=since, within=within)
        _made(run, replayable)
        _made(run, changes, before=before, audit=audited)
    return audited


def write_audit_by_key(warehouse: Warehouse, audited: DataFrame, say: Say) -> DataFrame:
    """Publish the table `audit_by_key`, made of `audit`; return it."""
    told = "counting verdicts by key"
    return _write(warehouse, say, make=audit_by_key, told=told, audit=audited)


def write_fairness(warehouse: Warehouse, interval: float, tolerance: float, say: Say) -> DataFrame:
    """Publish the table `fairness`; return it."""
    judged = {"interval": interval, "tolerance": tolerance}
    told = "adding up what each queue was due"
    return _write(warehouse, say, make=fairness, told=told, **judged)


def write_fairness_by_key(
    warehouse: Warehouse, interval: float, tolerance: float, say: Say
) -> DataFrame:
    """Publish the table `fairness_by_key`; return it."""
    judged = {"interval": interval, "tolerance": tolerance}
    told = "adding up what each key was due"
    return _write(warehouse, say, make=fairness_by_key, told=told, **judged)


def write_capacity(warehouse: Warehouse, interval: float, say: Say) -> DataFrame:
    """Publish the table `capacity`; return it."""
    told = "adding up busy slots"
    return _write(warehouse, say, make=capacity, told=told, interval=interval)
