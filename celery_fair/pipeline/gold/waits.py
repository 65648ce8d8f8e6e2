"""Gold: how long messages waited, by queue, or by whose they are.

`wait` is from the publication to the first start of an attempt, `broker` the part of it before the
worker had the message, `worker` the rest. The publisher's clock is another host's: waits below zero
are counted as `skewed` and stay among the others, as the equal error of those above zero does.

Quantiles are the least value with at least that part of all values at or below it, with a relative
error of rank of 1e-4 (Greenwald & Khanna, "Space-efficient online computation of quantile
summaries", 2001); up to 10,000 values they are exact.

How much of the workers' time was used, interval by interval:

    utilisation = seconds of work within the interval / seconds of slots within it

A worker's slots are there from its first record, or the first after its clock was set, to its last.
Above some 0.8 waits grow fast, and quanta only say whose they are: with slots busy for the part u
of the time, the mean wait grows like u / (1 - u) (Kingman, "The single server queue in heavy
traffic", 1961).
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from celery_fair.pipeline.gold.keys import TOP, firsts, keyed
from celery_fair.pipeline.gold.pieces import bounds, cut

_ACCURACY = 10_000


def waits(attempts: DataFrame) -> DataFrame:
    """One row per queue."""
    return _waits(attempts, "queue")


def waits_by_key(attempts: DataFrame) -> DataFrame:
    """One row per queue and key, of those that started the most; what has no key is left out."""
    by_key = _waits(attempts.where("key is not null"), "queue", "key")
    return by_key.orderBy(F.desc("started"), "queue", "key").limit(TOP)


def first_waits(attempts: DataFrame) -> DataFrame:
    """One row per queue that is shared by key, of messages whose tenant had nothing waiting."""
    return _waits(firsts(keyed(attempts)), "queue")


def first_waits_by_key(attempts: DataFrame) -> DataFrame:
    """One row per queue and key, of the same messages; what has no key is left out."""
    return waits_by_key(firsts(keyed(attempts)))


def _waits(attempts: DataFrame, *by: str) -> DataFrame:
    timed = (
        attempts.where("starts > 0")
        .withColumn("at_broker", F.col("received") - F.col("published"))
        .withColumn("at_worker", F.col("started_at") - F.col("received"))
    )
    return timed.groupBy(*by).agg(
        *of_waits(),
        F.count("wait").alias("timed"),
        F.count_if("skewed").alias("skewed"),
        _quantile("at_broker", 0.95).alias("broker_p95"),
        _quantile("at_worker", 0.95).alias("worker_p95"),
    )


def of_waits() -> list[Column]:
    """What is told of every `wait`."""
    return [
        F.count(F.lit(1)).alias("started"),
        F.mean("wait").alias("mean"),
        *(_quantile("wait", part / 100).alias(f"p{part}") for part in (50, 95, 99)),
        F.max("wait").alias("longest"),
    ]


def _quantile(name: str, part: float) -> Column:
    return F.percentile_approx(name, part, _ACCURACY)


def capacity(attempts: DataFrame, processes: DataFrame, interval: float = 60.0) -> DataFrame:
    """One row per interval in which there was a slot.

    Arguments:
        interval: length of an interval in seconds; they begin at multiples of it.
    """
    ran = attempts.where("runtime > 0").withColumn("ended_at", F.expr("started_at + runtime"))
    work = cut(ran.where("started_at is not null"), "started_at", "ended_at", interval)
    workers = processes.where("boot = worker and concurrency > 0")
    slots = cut(workers, "dated_at", "last_at", interval)
    busy = F.coalesce("busy_seconds", F.lit(0.0))
    return (
        _summed(slots, F.expr("(to - from) * concurrency"), "slot_seconds")
        .join(_summed(work, F.expr("to - from"), "busy_seconds"), "bucket", "left")
        .select(
            *bounds(interval),
            busy.alias("busy_seconds"),
            "slot_seconds",
            (busy / F.col("slot_seconds")).alias("utilisation"),
        )
    )


def _summed(cut: DataFrame, amount: Column, name: str) -> DataFrame:
    return cut.groupBy("bucket").agg(F.sum(amount).alias(name))
