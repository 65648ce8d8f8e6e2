"""Whose messages they are, in queues that are shared by key, and when each tenant had some waiting.

A key is written `tenant`, or `tenant/part`. A message without one is the tenant `""`'s, where other
messages of its queue have one; queues in which no message has a key are left out.

A tenant has something waiting from a message's publication to its start, or to its way to the dead
letters; what has neither yet is not in the log. So a countdown counts as waiting, and messages of
publishers that write no time cannot be counted. Times of publication are of the publishers' clocks.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

__all__ = ["firsts", "keyed", "waiting"]


def keyed(attempts: DataFrame) -> DataFrame:
    """Attempts in queues that are shared by key, with `tenant` and `part`, empty if it has none."""
    queues = attempts.where("key is not null").select("queue").distinct()
    key = F.coalesce("key", F.lit(""))
    return (
        attempts.join(F.broadcast(queues), "queue", "left_semi")
        .withColumn("tenant", F.substring_index(key, "/", 1))
        .withColumn("part", F.substring(key, F.length("tenant") + 2, F.length(key)))
    )


def waiting(mine: DataFrame, *whose: str) -> DataFrame:
    """Return the times in which someone had messages waiting: `whose`, `since`, `until`.

    Arguments:
        mine: attempts.
        whose: the columns that name someone.
    """
    timed = _timed(mine).select(*whose, "published", "until")
    so_far = _before(whose).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    begun = timed.withColumn("begins", _begins(whose).cast("int"))
    return (
        begun.withColumn("period", F.sum("begins").over(so_far))
        .groupBy(*whose, "period")
        .agg(F.min("published").alias("since"), F.max("until").alias("until"))
        .drop("period")
    )


def firsts(mine: DataFrame) -> DataFrame:
    """Attempts whose tenant had nothing waiting when they were published."""
    whose = ("queue", "tenant")
    return _timed(mine).withColumn("first", _begins(whose)).where("first").drop("first", "until")


def _timed(mine: DataFrame) -> DataFrame:
    over = F.coalesce("started_at", "rejected_at")
    return mine.where(F.col("published").isNotNull() & over.isNotNull()).withColumn(
        "until", F.greatest(over, "published")
    )


def _before(whose: Sequence[str]) -> WindowSpec:
    return Window.partitionBy(*whose).orderBy("published", "until")


def _begins(whose: Sequence[str]) -> Column:
    """Whether all that was published before had gone by then."""
    earlier = _before(whose).rowsBetween(Window.unboundedPreceding, -1)
    return F.coalesce(F.max("until").over(earlier) <= F.col("published"), F.lit(True))
