"""Silver: one row per attempt at a task, which is its id and the number of its retries.

Times are of three clocks: the publisher's, that of the host which started the task, and that of the
host which wrote its end. `wait` is the first start less the publication; where that is below zero
the clocks disagree (`skewed`), and it is left as it is.

If a task was broken off, the main process has written its end. If the process that did the work has
written one as well, that is the task's, whichever came first; the two count as one.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

__all__ = ["attempts"]

_STARTED = (
    "at",
    "node",
    "pid",
    "boot",
    "task",
    "queue",
    "key",
    "published",
    "received",
    "redelivered",
    "repeatable",
    "cost_key",
    "cost",
)
_FINISHED = ("at", "task", "queue", "state", "runtime", "cost_key", "exception")
_REJECTED = ("at", "task", "queue", "key", "published", "reason", "may_have_started")


def attempts(events: DataFrame) -> DataFrame:
    """Events of tasks, by attempt; what has no id is left out."""
    of_tasks = events.where(F.col("kind").isin("admitted", "started", "finished", "rejected"))
    grouped = (
        of_tasks.where("id is not null")
        .withColumn("retries", F.coalesce("retries", F.lit(0)))
        .groupBy("id", "retries")
        .agg(*_counts(), _first("started", _STARTED), *_lasts())
    )
    return grouped.select(
        "id",
        "retries",
        F.coalesce("started.task", "finished.task", "rejected.task").alias("task"),
        F.coalesce("started.queue", "finished.queue", "rejected.queue").alias("queue"),
        F.coalesce("started.key", "rejected.key").alias("key"),
        F.col("started.repeatable").alias("repeatable"),
        F.coalesce("started.published", "rejected.published").alias("published"),
        "published_first",
        "moved",
        F.col("started.received").alias("received"),
        F.col("started.redelivered").alias("redelivered"),
        F.col("started.at").alias("started_at"),
        "last_started_at",
        F.col("started.node").alias("node"),
        F.col("started.pid").alias("pid"),
        F.col("started.boot").alias("boot"),
        F.coalesce("started.cost_key", "finished.cost_key").alias("cost_key"),
        F.col("started.cost").alias("cost"),
        F.col("finished.at").alias("finished_at"),
        F.col("finished.state").alias("state"),
        F.col("finished.runtime").alias("runtime"),
        F.col("finished.exception").alias("exception"),
        F.col("rejected.at").alias("rejected_at"),
        F.col("rejected.reason").alias("reason"),
        F.col("rejected.may_have_started").alias("may_have_started"),
        "starts",
        "finishes",
        "rejections",
        "admissions",
        (F.col("started.at") - F.col("started.published")).alias("wait"),
        F.coalesce(F.col("started.at") < F.col("started.published"), F.lit(False)).alias("skewed"),
    )


def _counts() -> list[Column]:
    ended = F.col("kind") == "finished"
    by_itself = F.count_if(ended & ~_broken_off())
    for_it = F.least(F.count_if(ended & _broken_off()), F.lit(1))
    has_message = F.col("kind").isin("started", "rejected")
    first = F.min(F.when(has_message, F.col("published")))
    return [
        F.count_if(F.col("kind") == "started").alias("starts"),
        F.greatest(by_itself, for_it).alias("finishes"),
        F.count_if(F.col("kind") == "rejected").alias("rejections"),
        F.count_if(F.col("kind") == "admitted").alias("admissions"),
        # Unknown if one of its messages does not say.
        F.when(F.count_if(has_message & F.col("published").isNull()) == 0, first).alias(
            "published_first"
        ),
        (F.min("queue") != F.max("queue")).alias("moved"),
    ]


def _broken_off() -> Column:
    return F.coalesce("broken_off", F.lit(False))


def _first(kind: str, names: tuple[str, ...]) -> Column:
    return F.min_by(F.struct(*names), _place(kind)).alias(kind)


def _lasts() -> list[Column]:
    last_start = F.max(F.when(F.col("kind") == "started", F.col("at")))
    return [
        last_start.alias("last_started_at"),
        F.max_by(F.struct(*_FINISHED), _place("finished", ~_broken_off())).alias("finished"),
        F.max_by(F.struct(*_REJECTED), _place("rejected")).alias("rejected"),
    ]


def _place(kind: str, *before: Column) -> Column:
    """Where an event of the kind stands in time; null, and ignored, for those of other kinds.

    Arguments:
        before: what decides before time does.
    """
    return F.when(F.col("kind") == kind, F.struct(*before, "at", "event_id"))
