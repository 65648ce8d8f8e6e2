"""Gold: did each key get its share of its queue, interval by interval?

Tenants share a queue by their weights, and the parts of a tenant share what is the tenant's, evenly
(two levels). Who has something waiting is due its part; see `virtual_time`, and `keys` for what
waiting is. What is shared is messages, charges or seconds, see `pieces`. All workers of a queue are
one, as what they share by key is the queue.

Verdicts
--------
ALONE   nobody else had something waiting
HELD    below its share, and has a cap or a leash
UNFAIR  off by more than the tolerance, and what limited keys left does not explain it
FAIR    else

Off by less than the scheduler may owe is never unfair. Start-time fair queueing owes ``Max_i / w_i
+ Max_j / w_j`` per unit of weight (Goyal, Vin & Cheng, 1996), and half as much again because the
first charge is spread; each worker that keeps tags of its own owes that (whether they are shared is
not in the log, so all are taken to), and what its slots run is not settled yet.

There are at most `TOP` rows of each level, queue and interval, of those that got or were due most.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from celery_fair.pipeline.gold.fairness import TOLERANCE, parts, summed_up
from celery_fair.pipeline.gold.keys import keyed, top, waiting, weighed
from celery_fair.pipeline.gold.pieces import amounts, bounds, cut, units
from celery_fair.pipeline.gold.virtual_time import shares

_SPREAD = 1.5
"""What the first message of a key is charged at the most, by its cost."""

_AMONG = ("queue", "bucket", "level", "of")
_MEMBER = ("tenant", "part")
_HAS_PART = "part <> ''"
_SUMS = ("served", "due", "total", "seconds")


def fairness_by_key(
    attempts: DataFrame,
    processes: DataFrame,
    settings: DataFrame,
    interval: float = 60.0,
    tolerance: float = TOLERANCE,
) -> DataFrame:
    """One row per queue, interval, level and key.

    Arguments:
        interval: length of an interval in seconds; they begin at multiples of it.
        tolerance: how far a share may be off, as a part of the target.
    """
    mine = keyed(attempts)
    pieces = _pieces(mine, settings, interval)
    starts = _starts(mine, processes, interval)
    got = shares(
        pieces,
        starts,
        _AMONG,
        _MEMBER,
        views={"": F.lit(True)},
        besides=[F.max("limited").alias("limited")],
        inclusive=True,
    )
    judged = (
        got.drop("slots")
        .join(F.broadcast(_schedulers(starts)), ["queue", "bucket"], "left")
        .withColumn("off", _off(tolerance))
        .withColumn("left", _left())
        .withColumn("verdict", _verdict())
    )
    return _concluded(judged, interval)


def _pieces(mine: DataFrame, settings: DataFrame, interval: float) -> DataFrame:
    tenants = waiting(mine, "queue", "tenant")
    parts = waiting(mine.where(_HAS_PART), "queue", "tenant", "part")
    levels = tenants.select(*_names("tenant"), "since", "until").unionByName(
        parts.select(*_names("part"), "since", "until")
    )
    is_part = F.col("level") == "part"
    return cut(weighed(levels, settings), "since", "until", interval).select(
        *_AMONG,
        *_MEMBER,
        "from",
        "to",
        F.when(is_part, 1.0).otherwise(F.col("weight")).alias("weight"),
        (F.col("limited") & ~is_part).alias("limited"),
    )


def _names(level: str) -> list[Column]:
    """Who is meant, among whom: a tenant in its queue, or a part of the tenant."""
    is_part = level == "part"
    return [
        F.col("queue"),
        F.lit(level).alias("level"),
        (F.col("tenant") if is_part else F.lit("")).alias("of"),
        F.col("tenant"),
        (F.col("part") if is_part else F.lit("")).alias("part"),
    ]


def _starts(mine: DataFrame, processes: DataFrame, interval: float) -> DataFrame:
    workers = F.broadcast(units(processes))
    timed = mine.where(
        "started_at > published"
    )  # who has not waited, by whatever clocks, is left out
    started = amounts(timed.join(workers, ["node", "pid", "boot"]))
    others = (
        # A wait has its end: at a bound, what started belongs to the time in which it waited.
        (F.ceil(F.col("started_at") / interval) - 1).alias("bucket"),
        F.col("started_at").alias("from"),
        F.col("concurrency").alias("slots"),
        F.struct("node", "worker").alias("scheduler"),
        *("amount", "charge", "seconds", "unit"),
    )
    tenants = started.select(*_names("tenant"), *others)
    return tenants.unionByName(started.where(_HAS_PART).select(*_names("part"), *others))


def _schedulers(starts: DataFrame) -> DataFrame:
    return starts.groupBy("queue", "bucket").agg(
        F.max("unit").alias("unit"),
        F.count_distinct("scheduler").alias("schedulers"),
        F.max("slots").alias("slots"),
    )


def _off(tolerance: float) -> Column:
    """How much more than its due a key got, as a part of it; null if within the bound."""
    group = Window.partitionBy(*_AMONG)
    least, longest = F.min("weight").over(group), F.max("longest").over(group)
    tags = _SPREAD * (1 + F.col("weight") / least)
    bound = F.col("times") * F.col("schedulers") * (tags + F.col("slots")) * longest
    difference = F.col("served") - F.col("due")
    notable = (F.abs(difference) > bound) & (F.abs(difference) > tolerance * F.col("due"))
    return F.when(notable, difference / F.col("due"))


def _left() -> Column:
    """What limited keys did not take, which is the others'."""
    short = F.greatest(F.col("due") - F.col("served"), F.lit(0.0))
    return F.sum(F.when(F.col("limited"), short)).over(Window.partitionBy(*_AMONG))


def _verdict() -> Column:
    return (
        F.when(F.col("total").isNull(), "ALONE")
        .when(F.col("off").isNull(), "FAIR")
        .when((F.col("off") < 0) & F.col("limited"), "HELD")
        .when((F.col("off") > 0) & (F.col("served") - F.col("due") <= F.col("left")), "FAIR")
        .otherwise("UNFAIR")
    )


def _concluded(judged: DataFrame, interval: float) -> DataFrame:
    return top(judged, ("queue", "bucket", "level"), _MEMBER, _size()).select(
        "queue",
        *bounds(interval),
        "level",
        *_MEMBER,
        F.col("weighs").alias("weight"),
        "unit",
        "served",
        "due",
        "total",
        *parts(),
        "seconds",
        "verdict",
    )


def _size() -> Column:
    """What somebody got, or was due: who gets nothing is seen by that."""
    return F.greatest(F.coalesce("served", F.lit(0.0)), F.coalesce("due", F.lit(0.0)))


def by_key(made: DataFrame, tolerance: float = TOLERANCE) -> DataFrame:
    """The table summed up over intervals, one row per queue, level and key."""
    keys = ["queue", "level", *_MEMBER]
    summed = summed_up(made, keys, ["weight", "unit"], _SUMS, tolerance)
    return (
        top(summed, ("queue", "level"), _MEMBER, _size())
        .select(
            *keys,
            "weight",
            "unit",
            "intervals",
            "served",
            *parts(),
            "seconds",
            "unfair",
            "verdict",
        )
        .orderBy("queue", F.desc("level"), F.desc("served"), *_MEMBER)
    )
