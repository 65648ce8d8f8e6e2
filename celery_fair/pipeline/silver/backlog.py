"""Silver: what state each queue was in at each worker, from when until when.

Each `queue` record holds from its `since`, or else its time, until that of its queue's next record,
the last of them until the last record of its process.

ready       has messages at the worker: *backlogged*
empty       has none; `starved` if the broker had some
throttled   has messages that its own leash or cap holds back
unassigned  is not this worker's to consume

If the worker's clock was set meanwhile, it holds from the first record after that.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from celery_fair.pipeline.silver.clocks import is_set

__all__ = ["backlog"]

_WORKER = ("node", "pid", "boot")


def backlog(events: DataFrame) -> DataFrame:
    """One row per worker, queue and time in one state."""
    said = events.where("kind = 'queue' and queue is not null and state is not null")
    by_queue = Window.partitionBy(*_WORKER, "queue").orderBy("since", "seq")
    dated = F.min(F.when(is_set("at"), F.col("at"))).alias("dated_at")
    ends = events.groupBy(*_WORKER).agg(F.max("at").alias("last_at"), dated)
    until = F.coalesce("until", "last_at")
    starved = (F.col("state") == "empty") & (F.coalesce("depth", F.lit(0)) > 0)
    return (
        said.withColumn("since", F.coalesce("since", "at"))
        .withColumn("until", F.lead("since").over(by_queue))
        .withColumn("starved", starved)
        .join(ends, list(_WORKER))
        .withColumn("until", until)
        .withColumn("since", F.when(_set_meanwhile(), F.col("dated_at")).otherwise(F.col("since")))
        .select(
            *_WORKER,
            "queue",
            "since",
            "until",
            "state",
            "starved",
            "quantum",
            F.coalesce("level", F.lit(0)).alias("level"),
            "depth",
        )
        .where("until > since")
    )


def _set_meanwhile() -> Column:
    return ~is_set("since") & is_set("until")
