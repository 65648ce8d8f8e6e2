"""What a start costs: the time from a slot's becoming free to the start of the work that gets it.

The broker's, the worker's and its pool's part of it: the end is told, the message acknowledged, the
next one chosen and handed to a thread or a child process. It is no part of a run time, and on short
tasks much of a slot's time.

A worker of n slots starts its k-th task in the slot that its (k - n)-th end has made free: whatever
the order is in which they end, k - n had to end before. The *handover* of a message is the time
from then to its start; from its publication, if that was later and so the slot was waiting. It is
not known of the first n of a worker, nor where a leash, a cap or a pause may have held the message
back. There it is taken to be the mean of its worker's, or else of all workers' with the same pool;
and so is what is longer than `_LONGEST`, which nobody waits for a free slot.

The *transit* of a message is the time from its publication to its arrival, as far as it came while
all slots were taken; whoever publishes an urgent message in that time is too late for the next free
slot. What takes longer than `_TRANSIT` is not on its way: the worker does not want it yet.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

__all__ = ["handovers", "with_handover"]

_LONGEST = 1.0
_TRANSIT = 0.2
"""Seconds."""


def with_handover(attempts: DataFrame, processes: DataFrame) -> DataFrame:
    """Attempts with what their starts cost, and their way to the worker, both in seconds."""
    timed = _timed(attempts, processes)
    of_worker = Window.partitionBy("node", "worker")
    of_pool = Window.partitionBy("pool")
    usual = F.coalesce(
        F.mean("measured").over(of_worker), F.mean("measured").over(of_pool), F.lit(0.0)
    )
    return timed.withColumn("handover", F.coalesce("measured", usual)).withColumn(
        "transit", F.coalesce(_transit(), F.lit(0.0))
    )


def handovers(attempts: DataFrame, processes: DataFrame) -> DataFrame:
    """One row per pool: how many starts it was measured of, and what they cost."""
    measured = _timed(attempts, processes).where("measured is not null")
    return measured.groupBy("pool").agg(
        F.count(F.lit(1)).alias("starts"),
        F.mean("measured").alias("mean"),
        F.percentile_approx("measured", 0.5).alias("p50"),
        F.percentile_approx("measured", 0.95).alias("p95"),
    )


def _timed(attempts: DataFrame, processes: DataFrame) -> DataFrame:
    began = attempts.where("started_at is not null")
    by_start = Window.partitionBy("node", "worker").orderBy("started_at", "id", "retries")
    by_end = Window.partitionBy("node", "worker").orderBy("finished_at", "id", "retries")
    placed = (
        began.join(_workers(processes), ["node", "boot"], "left")
        .withColumn("worker", F.coalesce("worker", "boot"))
        .withColumn("number", F.row_number().over(by_start))
    )
    freed = (
        placed.where("finished_at is not null")
        .withColumn("number", F.row_number().over(by_end) + F.col("concurrency"))
        .select("node", "worker", "number", F.col("finished_at").alias("free_at"))
    )
    return placed.join(freed, ["node", "worker", "number"], "left").withColumn(
        "measured", _measured()
    )


def _measured() -> Column:
    cost = F.col("started_at") - F.greatest("free_at", "published")
    free = F.col("free_at").isNotNull() & ~F.array_contains("throttled", F.col("queue"))
    return F.when(free & cost.between(0.0, _LONGEST), cost)


def _transit() -> Column:
    took = F.col("received") - F.col("published")
    return F.when((F.col("received") < F.col("free_at")) & took.between(0.0, _TRANSIT), took)


def _workers(processes: DataFrame) -> DataFrame:
    """Each process with its worker's name, slots and pool, and the queues that it may hold back."""
    none = F.array().cast("array<string>")
    limits = (F.map_keys(name) for name in ("rates", "shared_rates", "caps"))
    throttled = F.flatten(F.array(*(F.coalesce(limit, none) for limit in limits)))
    mains = processes.select(
        "node", F.col("boot").alias("worker"), "concurrency", "pool", throttled.alias("throttled")
    )
    return processes.select("node", "boot", "worker").join(F.broadcast(mains), ["node", "worker"])
