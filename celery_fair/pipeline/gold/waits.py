"""Gold: how long messages waited, by queue, or by whose they are.

`wait` is from the publication to the first start of an attempt, `broker` the part of it before the
worker had the message, `worker` the rest. The publisher's clock is another host's: waits below zero
are counted as `skewed` and stay among the others, as the equal error of those above zero does.

Quantiles are the least value with at least that part of all values at or below it, with a relative
error of rank of 1e-4 (Greenwald & Khanna, "Space-efficient online computation of quantile
summaries", 2001); up to 10,000 values they are exact.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from celery_fair.pipeline.gold.tenants import firsts, keyed

__all__ = ["first_waits", "first_waits_by_key", "waits", "waits_by_key"]

_ACCURACY = 10_000


def waits(attempts: DataFrame) -> DataFrame:
    """One row per queue."""
    return _waits(attempts, "queue")


def waits_by_key(attempts: DataFrame, most: int = 1000) -> DataFrame:
    """One row per queue and key, of those that started the most; what has no key is left out.

    Arguments:
        most: rows; keys may be as many as users.
    """
    by_key = _waits(attempts.where("key is not null"), "queue", "key")
    return by_key.orderBy(F.desc("started"), "queue", "key").limit(most)


def first_waits(attempts: DataFrame) -> DataFrame:
    """One row per queue that is shared by key, of messages whose tenant had nothing waiting."""
    return _waits(firsts(keyed(attempts)), "queue")


def first_waits_by_key(attempts: DataFrame, most: int = 1000) -> DataFrame:
    """One row per queue and key, of the same messages; what has no key is left out.

    Arguments:
        most: rows.
    """
    return waits_by_key(firsts(keyed(attempts)), most)


def _waits(attempts: DataFrame, *by: str) -> DataFrame:
    timed = (
        attempts.where("starts > 0")
        .withColumn("at_broker", F.col("received") - F.col("published"))
        .withColumn("at_worker", F.col("started_at") - F.col("received"))
    )
    return timed.groupBy(*by).agg(
        F.count(F.lit(1)).alias("started"),
        F.count("wait").alias("timed"),
        F.count_if("skewed").alias("skewed"),
        F.mean("wait").alias("mean"),
        _quantile("wait", 0.5).alias("p50"),
        _quantile("wait", 0.95).alias("p95"),
        _quantile("wait", 0.99).alias("p99"),
        F.max("wait").alias("longest"),
        _quantile("at_broker", 0.95).alias("broker_p95"),
        _quantile("at_worker", 0.95).alias("worker_p95"),
    )


def _quantile(name: str, part: float) -> Column:
    return F.percentile_approx(name, part, _ACCURACY)
