"""What is shared at each worker, and times, cut into intervals.

Intervals begin at multiples of their length. What lasts from a clock's time before it was set to a
true one would be millions of them: it is left out.

What is shared are messages, what a callable charges for them, or seconds. The worker's log says how
it counts: `costs` is one, custom or runtime.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from celery_fair.pipeline.silver.clocks import LONGEST

MESSAGES, COST, SECONDS = "messages", "cost", "seconds"


def units(processes: DataFrame) -> DataFrame:
    """One row per process: its worker's `unit` and `concurrency`, and `slots`, those of them whose
    charges are not settled before a task ends.

    Where the record of what costs are is missing, it is the second.
    """
    of_workers = processes.where("boot = worker").groupBy("node", "worker")
    said = of_workers.agg(*(F.max(name).alias(name) for name in ("costs", "concurrency")))
    costs, slots = F.col("costs"), F.coalesce("concurrency", F.lit(1))
    unit = F.when(costs == "one", MESSAGES).when(costs == "custom", COST).otherwise(SECONDS)
    return (
        processes.select("node", "pid", "boot", "worker")
        .join(F.broadcast(said), ["node", "worker"], "left")
        .select("node", "pid", "boot", "worker", unit.alias("unit"), slots.alias("concurrency"))
        .withColumn("slots", F.when(F.col("unit") == SECONDS, F.col("concurrency")).otherwise(0))
    )


def amounts(started: DataFrame) -> DataFrame:
    """Starts with their `amount` in their `unit`, their `charge` and `seconds`.

    A task that has not ended has an amount if that was known when it started.
    """
    charge = F.coalesce("cost", F.lit(1.0))
    amount = F.when(F.col("unit") == SECONDS, F.col("runtime")).otherwise(charge)
    return (
        started.where("starts > 0")
        .withColumns({"charge": charge, "amount": amount})
        .withColumn("seconds", F.coalesce("runtime", F.lit(0.0)))
        .where("amount is not null")
    )


def cut(rows: DataFrame, since: str, until: str, interval: float) -> DataFrame:
    """Return rows once for each `bucket` that they reach into: `from` and `to` within it."""
    first, last = (F.floor(F.col(name) / interval) for name in (since, until))
    return (
        rows.where(F.col(until) - F.col(since) <= LONGEST)
        .withColumn("bucket", F.explode(F.sequence(first, last)))
        .withColumn("from", F.greatest(since, F.col("bucket") * interval))
        .withColumn("to", F.least(until, (F.col("bucket") + 1) * interval))
        .where("to > from")
    )


def bounds(interval: float) -> list[Column]:
    """Return when a `bucket` begins and ends."""
    return [
        (F.col("bucket") * interval).alias("since"),
        ((F.col("bucket") + 1) * interval).alias("until"),
    ]
