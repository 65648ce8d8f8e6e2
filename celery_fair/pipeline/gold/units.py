"""What is shared, at each worker: messages, what a callable charges for them, or seconds.

The worker's log says how it counts: `costs` is one, custom or runtime.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

__all__ = ["MESSAGES", "SECONDS", "amounts", "units"]

MESSAGES, COST, SECONDS = "messages", "cost", "seconds"


def units(processes: DataFrame) -> DataFrame:
    """One row per process: its worker's `unit`, and `slots` in which charges are not settled yet.

    A log that does not say what costs are is of a version before; its unit is the second.
    """
    if "costs" not in processes.columns:  # of an older warehouse
        processes = processes.withColumn("costs", F.lit(None).cast("string"))
    known = [name for name in ("costs", "concurrency") if name in processes.columns]
    of_worker = processes.where("boot = worker").select("node", "worker", *known)
    if "concurrency" not in known:
        of_worker = of_worker.withColumn("concurrency", F.lit(1))
    said = of_worker.groupBy("node", "worker").agg(
        F.max("costs").alias("costs"), F.max("concurrency").alias("concurrency")
    )
    unit = F.when(F.col("costs") == "one", MESSAGES).when(F.col("costs") == "custom", COST)
    return (
        processes.select("node", "pid", "boot", "worker")
        .join(F.broadcast(said), ["node", "worker"], "left")
        .withColumn("unit", unit.otherwise(SECONDS))
        .withColumn("slots", F.when(F.col("unit") == SECONDS, F.coalesce("concurrency", F.lit(1))))
        .select(
            "node", "pid", "boot", "worker", "unit", F.coalesce("slots", F.lit(0)).alias("slots")
        )
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
