"""Gold tables, made from a warehouse's silver ones and published there."""

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any

from pyspark.sql import DataFrame

from celery_fair.pipeline.gold.audit import audit, changes
from celery_fair.pipeline.gold.doubts import doubts
from celery_fair.pipeline.warehouse import Warehouse

Say = Callable[[str], None]
_Make = Callable[..., DataFrame]


def publish(warehouse: Warehouse, say: Say, make: _Make, **given: Any) -> DataFrame:
    """Publish a table; return it.

    Arguments:
        make: makes it. It is called as the table is, and its arguments without a default as those
            that it is made of.
        given: those of its arguments that are no tables of the warehouse.
    """
    say(f"making the table {make.__name__}")
    with warehouse.publishing():
        return _made(warehouse, make, **given)


def _made(warehouse: Warehouse, make: _Make, **given: Any) -> DataFrame:
    named = [each for each in signature(make).parameters.values() if each.name not in given]
    names = [each.name for each in named if each.default is Parameter.empty]
    tables = {name: warehouse.table(name) for name in names}
    return warehouse.replace(make.__name__, make(**tables, **given))


def publish_audit(
    warehouse: Warehouse, say: Say, since: float | None = None, within: float | None = None
) -> DataFrame:
    """Publish the tables `audit`, `doubts` and `changes`; return the first.

    Arguments:
        since, within: see `celery_fair.pipeline.gold.audit`.
    """
    say("comparing starts, ends and rejections")
    with warehouse.publishing():
        before = warehouse.known("audit", "id string, retries long, verdict string")
        _made(warehouse, doubts)
        audited = _made(warehouse, audit, since=since, within=within)
        _made(warehouse, changes, before=before, audit=audited)
    return audited
