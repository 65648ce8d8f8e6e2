"""What each event says something about. An event may concern several subjects.

start     an attempt at a task, by id and retries
queue     a queue at a worker
leash     a queue that has a leash, at a node
process   a process
"""

from collections.abc import Collection

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

__all__ = ["subjects"]


def subjects(events: DataFrame, leashed: Collection[str]) -> DataFrame:
    """One row per event and subject.

    Arguments:
        leashed: queues whose starts are to be counted.
    """
    started = (F.col("kind") == "started") & F.col("id").isNotNull()
    worker = F.concat_ws(":", "node", "pid", "boot")
    concerned = F.array(
        _when(started, "start", F.concat_ws("/", "id", F.coalesce("retries", F.lit(0)))),
        _when(F.col("kind") == "queue", "queue", F.concat_ws(":", worker, "queue")),
        _when(started & F.col("queue").isin(*leashed), "leash", F.concat_ws(":", "node", "queue")),
        _when(F.col("kind") == "process", "process", worker),
    )
    return events.withColumn("subject", F.explode(F.array_compact(concerned))).select(
        F.col("subject.about").alias("about"),
        F.col("subject.key").alias("key"),
        "event_id",
        "at",
        "node",
        "queue",
        "task",
        "state",
        F.coalesce("depth", F.lit(0)).alias("depth"),
        F.coalesce("heartbeat", F.lit(0.0)).alias("heartbeat"),
    )


def _when(condition: Column, about: str, key: Column) -> Column:
    return F.when(condition, F.struct(F.lit(about).alias("about"), key.alias("key")))
