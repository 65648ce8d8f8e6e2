"""Gold: what became of each tenant's attempts, counted by verdict."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from celery_fair.pipeline.gold.audit import VERDICTS
from celery_fair.pipeline.gold.tenants import keyed
from celery_fair.pipeline.gold.top import TOP, top

__all__ = ["WELL", "audit_by_key"]

WELL = ("FINISHED", "RUNNING")
"""Verdicts that nobody need look at."""


def audit_by_key(audited: DataFrame, most: int = TOP) -> DataFrame:
    """One row per queue and tenant.

    Arguments:
        audited: as in `celery_fair.pipeline.gold.audit`.
        most: tenants of a queue: those with most attempts that are neither finished nor running,
            then those with most; the others are one row without a name.
    """
    counts = {name.lower(): F.count_if(F.col("verdict") == name) for name in VERDICTS}
    by_key = (
        keyed(audited)
        .groupBy("queue", "tenant")
        .agg(
            F.count(F.lit(1)).alias("attempts"),
            F.count_if(~F.col("verdict").isin(*WELL)).alias("to_look_at"),
            *(count.alias(name) for name, count in counts.items()),
        )
    )
    names = ("attempts", "to_look_at", *counts)
    order = F.struct("to_look_at", "attempts")
    return top(by_key, ("queue",), ("tenant",), order, {name: F.sum(name) for name in names}, most)
