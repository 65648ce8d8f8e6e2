"""Gold: how much of the workers' time was used, interval by interval.

    utilisation = seconds of work within the interval / seconds of slots within it

A worker's slots are there from its first record, or the first after its clock was set, to its last.
Above some 0.8 waits grow fast, and quanta only say whose they are: with slots busy for the part u
of the time, the mean wait grows like u / (1 - u) (Kingman, "The single server queue in heavy
traffic", 1961).
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from celery_fair.pipeline.gold.buckets import bounds, cut

__all__ = ["capacity"]


def capacity(attempts: DataFrame, processes: DataFrame, interval: float = 60.0) -> DataFrame:
    """One row per interval in which there was a slot.

    Arguments:
        interval: length of an interval in seconds; they begin at multiples of it.
    """
    ran = attempts.where("runtime > 0").withColumn("ended_at", F.expr("started_at + runtime"))
    work = cut(ran.where("started_at is not null"), "started_at", "ended_at", interval)
    workers = processes.where("boot = worker and concurrency > 0")
    slots = cut(workers, "dated_at", "last_at", interval)
    return (
        _summed(slots, F.expr("(to - from) * concurrency"), "slot_seconds")
        .join(_summed(work, F.expr("to - from"), "busy_seconds"), "bucket", "left")
        .join(_counted(attempts, "published", interval), "bucket", "left")
        .join(_counted(attempts, "started_at", interval), "bucket", "left")
        .select(
            *bounds(interval),
            _or_zero("published_n").alias("published"),
            _or_zero("started_at_n").alias("started"),
            F.coalesce("busy_seconds", F.lit(0.0)).alias("busy_seconds"),
            "slot_seconds",
            (F.coalesce("busy_seconds", F.lit(0.0)) / F.col("slot_seconds")).alias("utilisation"),
        )
    )


def _summed(cut: DataFrame, amount: Column, name: str) -> DataFrame:
    return cut.groupBy("bucket").agg(F.sum(amount).alias(name))


def _counted(attempts: DataFrame, time: str, interval: float) -> DataFrame:
    timed = attempts.where(F.col(time).isNotNull())
    bucket = F.floor(F.col(time) / interval).alias("bucket")
    return timed.groupBy(bucket).agg(F.count(F.lit(1)).alias(f"{time}_n"))


def _or_zero(name: str) -> Column:
    return F.coalesce(name, F.lit(0))
