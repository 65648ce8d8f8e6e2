"""Whose messages they are, in queues that are shared by key, and when each tenant had some waiting.

A key is written `tenant`, or `tenant/part`. A message without one is the tenant `""`'s, where other
messages of its queue have one; queues in which no message has a key are left out.

A tenant has something waiting from a message's publication to its start, or to its way to the dead
letters; what has neither yet is not in the log. So a countdown counts as waiting, and messages of
publishers that write no time cannot be counted. Times of publication are of the publishers' clocks.

All workers of a queue share it by the same settings, so what any of them said last of its keys
holds for all. What was said first holds for the time before, too: messages may have waited for the
first worker.

Keys may be as many as messages: tables by key have those with the most, and not the others.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from celery_fair.pipeline.silver.queues import news

TOP = 1000
"""Keys that have a row."""

_FIELDS = ("key_weight", "key_weights", "key_cap", "key_caps", "key_rate", "key_rates")
_EVER = 1e18
"""Seconds since 1970, after everything."""


# Whose ------------------------------------------------------------------------


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


# By which settings ------------------------------------------------------------


def weighed(times: DataFrame, settings: DataFrame) -> DataFrame:
    """Return times, cut where settings change, with the `weight` of their `tenant`, and `limited`.

    Arguments:
        times: `queue`, `tenant`, `since` and `until`.
        settings: as in `celery_fair.pipeline.silver.queues`.
    """
    known = _known(settings)
    overlaps = (
        (times["queue"] == known["of_queue"])
        & (times["since"] < known["said_until"])
        & (times["until"] > known["said_since"])
    )
    joined = times.join(F.broadcast(known), overlaps, "left")
    return (
        joined.withColumn("weight", _own("key_weights", "key_weight", 1.0))
        .withColumn(
            "limited",
            (_own("key_caps", "key_cap", 0.0) > 0) | (_own("key_rates", "key_rate", 0.0) > 0),
        )
        .withColumn("since", F.greatest("since", "said_since"))
        .withColumn("until", F.least("until", "said_until"))
        .select(*times.columns, "weight", "limited")
    )


def _own(of_key: str, usual: str, without: float) -> Column:
    own = F.try_element_at(F.col(of_key), F.col("tenant"))
    return F.coalesce(own, F.col(usual).cast("double"), F.lit(without))


def _known(settings: DataFrame) -> DataFrame:
    """What each queue's keys had, from when until when."""
    by_time = Window.partitionBy("queue").orderBy("since")
    return news(settings.where("key_weight is not null"), _FIELDS, by_time).select(
        F.col("queue").alias("of_queue"),
        F.when(F.col("before").isNull(), -_EVER).otherwise(F.col("since")).alias("said_since"),
        F.coalesce(F.lead("since").over(by_time), F.lit(_EVER)).alias("said_until"),
        *_FIELDS,
    )


# The most of them -------------------------------------------------------------


def top(rows: DataFrame, among: Sequence[str], names: Sequence[str], most_of: Column) -> DataFrame:
    """Return the `TOP` first, and not the others.

    Arguments:
        rows: one for each that `among` and `names` name.
        among: what has its own first ones.
        most_of: what the first have the most of.
    """
    order = Window.partitionBy(*among).orderBy(most_of.desc(), *names)
    return (
        rows.withColumn("place", F.row_number().over(order)).where(f"place <= {TOP}").drop("place")
    )
