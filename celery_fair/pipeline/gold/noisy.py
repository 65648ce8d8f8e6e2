"""Gold: keys that had more than a tenth of what ran in their queue, while others waited.

That is the rule by which Amazon SQS calls a tenant of a fair queue a noisy neighbour. It is here to
compare with: what SQS then puts behind the others may be no more than the key's share, as a key has
a tenth of its queue by right where there are ten, or where it weighs more. So its share of what was
served, and its target, stand beside it. Of an interval there are nine such keys at the most.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from celery_fair.pipeline.gold.keys import keyed, waiting
from celery_fair.pipeline.gold.pieces import bounds, cut

NOISY = 0.1
"""Part of what ran, by the seconds in which it did."""

_PLACE = ("queue", "bucket")
_ACCURACY = 10_000


def noisy(attempts: DataFrame, fairness_by_key: DataFrame, interval: float = 60.0) -> DataFrame:
    """One row per queue, interval and noisy key.

    Arguments:
        fairness_by_key: of the same interval.
    """
    mine = keyed(attempts)
    loud = _loud(mine, interval)
    quiet = _waited(mine, interval)
    own = quiet.withColumnRenamed("waited", "own")
    whole = quiet.groupBy(*_PLACE).agg(
        F.count(F.lit(1)).alias("waiters"), F.sum("waited").alias("waited")
    )
    of_interval = F.round(F.col("since") / interval).cast("long")
    shares = fairness_by_key.where("level = 'tenant' and tenant is not null").select(
        "queue", of_interval.alias("bucket"), "tenant", "weight", "share", "target", "verdict"
    )
    return (
        loud.join(own, [*_PLACE, "tenant"], "left")
        .join(whole, list(_PLACE))
        .withColumn("waiting_keys", F.col("waiters") - F.col("own").isNotNull().cast("int"))
        .where("waiting_keys > 0")
        .join(_waits_of_others(mine, loud, interval), [*_PLACE, "tenant"], "left")
        .join(shares, [*_PLACE, "tenant"], "left")
        .select(
            "queue",
            *bounds(interval),
            "tenant",
            (F.col("ran") / interval).alias("running"),
            (F.col("all_ran") / interval).alias("all_running"),
            (F.col("ran") / F.col("all_ran")).alias("in_flight"),
            "waiting_keys",
            "others_p50",
            "others_p95",
            "weight",
            "share",
            "target",
            "verdict",
        )
    )


def _loud(mine: DataFrame, interval: float) -> DataFrame:
    """Tenants with more than a tenth of the seconds of work in an interval: they are few."""
    ran = mine.where("started_at is not null and runtime > 0")
    ran = ran.withColumn("ended_at", F.expr("started_at + runtime"))
    each = cut(ran, "started_at", "ended_at", interval).groupBy(*_PLACE, "tenant")
    seconds = each.agg(F.sum(F.expr("to - from")).alias("ran"))
    every = seconds.groupBy(*_PLACE).agg(F.sum("ran").alias("all_ran"))
    return seconds.join(every, list(_PLACE)).where(F.col("ran") > NOISY * F.col("all_ran"))


def _waited(mine: DataFrame, interval: float) -> DataFrame:
    times = cut(waiting(mine, "queue", "tenant"), "since", "until", interval)
    seconds = F.sum(F.expr("to - from"))
    return times.groupBy(*_PLACE, "tenant").agg(seconds.alias("waited"))


def _waits_of_others(mine: DataFrame, loud: DataFrame, interval: float) -> DataFrame:
    """How long those waited that others started in the interval."""
    timed = mine.where("starts > 0 and wait is not null").select(
        "queue",
        F.floor(F.col("started_at") / interval).alias("bucket"),
        F.col("tenant").alias("other"),
        "wait",
    )
    beside = loud.select(*_PLACE, "tenant").join(timed, list(_PLACE)).where("other <> tenant")
    return beside.groupBy(*_PLACE, "tenant").agg(
        *(
            F.percentile_approx("wait", part, _ACCURACY).alias(f"others_p{part * 100:.0f}")
            for part in (0.5, 0.95)
        )
    )


def by_tenant(made: DataFrame) -> DataFrame:
    """The table summed up over intervals, one row per queue and tenant, the noisiest first.

    `fair` is in how many of its intervals it had no more than its share, for all its noise.
    """
    no_more = F.coalesce(F.col("verdict") != "UNFAIR", F.lit(True)) | (
        F.col("share") <= F.col("target")
    )
    return (
        made.groupBy("queue", "tenant")
        .agg(
            F.count(F.lit(1)).alias("intervals"),
            F.expr("sum(running) / sum(all_running)").alias("in_flight"),
            F.max("waiting_keys").alias("waiting_keys"),
            F.max("others_p95").alias("others_p95"),
            F.mean("share").alias("share"),
            F.mean("target").alias("target"),
            F.count_if(no_more).alias("fair"),
        )
        .orderBy("queue", F.desc("intervals"), F.desc("in_flight"), "tenant")
    )
