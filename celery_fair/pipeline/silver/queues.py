"""Silver: what state each queue was in at each worker, and by what it was shared, when.

Each `queue` record holds from its `since`, or else its time, until that of its queue's next record,
the last of them until the last record of its process.

ready       has messages at the worker: *backlogged*
empty       has none; `starved` if the broker had some
throttled   has messages that its own leash or cap holds back
unassigned  is not this worker's to consume

If the worker's clock was set meanwhile, it holds from the first record after that.

Each `settings` record holds likewise. One that says the same again, as is done each hour, begins
nothing.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from celery_fair.eventlog.records import KINDS
from celery_fair.pipeline.silver.clocks import is_set

SETTINGS: Final = [name for name in KINDS["settings"] if name != "queue"]
"""The fields of a record, besides its queue's name."""

_WORKER = ("node", "pid", "boot")
_MAPS = [name for name in SETTINGS if KINDS["settings"][name][0].startswith("map")]


def backlog(events: DataFrame) -> DataFrame:
    """One row per worker, queue and time in one state."""
    said = events.where("kind = 'queue' and queue is not null and state is not null")
    by_queue = Window.partitionBy(*_WORKER, "queue").orderBy("since", "seq")
    dated = F.min(F.when(is_set("at"), F.col("at"))).alias("dated_at")
    ends = events.groupBy(*_WORKER).agg(F.max("at").alias("last_at"), dated)
    starved = (F.col("state") == "empty") & (F.coalesce("depth", F.lit(0)) > 0)
    return (
        said.withColumn("since", F.coalesce("since", "at"))
        .withColumn("until", F.lead("since").over(by_queue))
        .join(ends, list(_WORKER))
        .withColumn("until", F.coalesce("until", "last_at"))
        .withColumn("since", F.when(_set_meanwhile(), F.col("dated_at")).otherwise(F.col("since")))
        .select(
            *_WORKER,
            "queue",
            "since",
            "until",
            "state",
            starved.alias("starved"),
            "quantum",
            F.coalesce("level", F.lit(0)).alias("level"),
            "depth",
        )
        .where("until > since")
    )


def _set_meanwhile() -> Column:
    return ~is_set("since") & is_set("until")


def settings(events: DataFrame) -> DataFrame:
    """One row per worker, queue and time of the same settings."""
    said = events.where("kind = 'settings' and queue is not null")
    by_queue = Window.partitionBy(*_WORKER, "queue").orderBy("at", "seq")
    ends = events.groupBy(*_WORKER).agg(F.max("at").alias("last_at"))
    return (
        news(said, SETTINGS, by_queue)
        .withColumn("until", F.lead("at").over(by_queue))
        .join(ends, list(_WORKER))
        .select(
            *_WORKER,
            "queue",
            F.col("at").alias("since"),
            F.coalesce("until", "last_at").alias("until"),
            *SETTINGS,
        )
    )


def news(records: DataFrame, fields: Sequence[str], in_order: WindowSpec) -> DataFrame:
    """Records that say something else than the one before; `before` is null in the first."""
    # Maps cannot be compared, but what they are written as can.
    comparable = (
        F.array_sort(F.map_entries(name)).alias(name) if name in _MAPS else F.col(name)
        for name in fields
    )
    return (
        records.withColumn("said", F.to_json(F.struct(*comparable)))
        .withColumn("before", F.lag("said").over(in_order))
        .where("before is null or before <> said")
    )
