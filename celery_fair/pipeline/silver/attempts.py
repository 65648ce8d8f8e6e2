"""Silver: one row per attempt at a task, which is its id and the number of its retries.

Times are of three clocks: the publisher's, that of the host which started the task, and that of the
host which wrote its end. `wait` is the first start less the publication; where that is below zero
the clocks disagree (`skewed`), and it is left as it is.

If a task was broken off, the main process has written its end. If the process that did the work has
written one as well, that is the task's, whichever came first; the two count as one.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from celery_fair.eventlog.records import KINDS

_KINDS = ("started", "finished", "rejected")
_OF_START = ("repeatable", "received", "redelivered", "node", "pid", "boot", "cost")
_OF_END = ("state", "runtime", "exception")
_OF_REJECTION = ("reason", "may_have_started")


def attempts(events: DataFrame) -> DataFrame:
    """Events of tasks, by attempt; what has no id is left out."""
    of_tasks = events.where(F.col("kind").isin("admitted", *_KINDS))
    grouped = (
        of_tasks.where("id is not null")
        .withColumn("retries", F.coalesce("retries", F.lit(0)))
        # Else Spark would add up what is in one file before, which is no more than two or three
        # records of an attempt, and sort all of them for it.
        .repartition("id", "retries")
        .groupBy("id", "retries")
        .agg(*_counts(), *_records())
    )
    return grouped.select(
        "id",
        "retries",
        *(_known(name, *_KINDS) for name in ("task", "queue")),
        *(_known(name, "started", "rejected") for name in ("key", "published")),
        _known("cost_key", "started", "finished"),
        "published_first",
        "moved",
        *(f"started.{name}" for name in _OF_START),
        *(f"finished.{name}" for name in _OF_END),
        *(f"rejected.{name}" for name in _OF_REJECTION),
        *(F.col(f"{kind}.at").alias(f"{kind}_at") for kind in _KINDS),
        "last_started_at",
        "starts",
        "finishes",
        "rejections",
        "admissions",
        (F.col("started.at") - F.col("started.published")).alias("wait"),
        F.coalesce(F.col("started.at") < F.col("started.published"), F.lit(False)).alias("skewed"),
    )


def _known(name: str, *kinds: str) -> Column:
    return F.coalesce(*(F.col(f"{kind}.{name}") for kind in kinds)).alias(name)


def _counts() -> list[Column]:
    ended = F.col("kind") == "finished"
    by_itself = F.count_if(ended & ~_broken_off())
    for_it = F.least(F.count_if(ended & _broken_off()), F.lit(1))
    has_message = F.col("kind").isin("started", "rejected")
    first = F.min(F.when(has_message, F.col("published")))
    # Unknown if one of its messages does not say.
    published = F.when(F.count_if(has_message & F.col("published").isNull()) == 0, first)
    return [
        F.count_if(F.col("kind") == "started").alias("starts"),
        F.greatest(by_itself, for_it).alias("finishes"),
        F.count_if(F.col("kind") == "rejected").alias("rejections"),
        F.count_if(F.col("kind") == "admitted").alias("admissions"),
        F.max(F.when(F.col("kind") == "started", F.col("at"))).alias("last_started_at"),
        published.alias("published_first"),
        (F.min("queue") != F.max("queue")).alias("moved"),
    ]


def _broken_off() -> Column:
    return F.coalesce("broken_off", F.lit(False))


def _records() -> list[Column]:
    """The first start, the last end and the last rejection."""
    return [
        F.min_by(_fields("started", "node", "pid", "boot"), _place("started")).alias("started"),
        F.max_by(_fields("finished"), _place("finished", ~_broken_off())).alias("finished"),
        F.max_by(_fields("rejected"), _place("rejected")).alias("rejected"),
    ]


def _fields(kind: str, *others: str) -> Column:
    own = (name for name in KINDS[kind] if name not in ("id", "retries"))
    return F.struct("at", *others, *own)


def _place(kind: str, *before: Column) -> Column:
    """Where an event of the kind stands in time; null, and ignored, for those of other kinds.

    Arguments:
        before: what decides before time does.
    """
    return F.when(F.col("kind") == kind, F.struct(*before, "at", "node", "pid", "boot", "seq"))
