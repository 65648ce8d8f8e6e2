"""What the workers themselves recorded."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from celery_fair.pipeline.replay.scenario import Plan, Scenario

__all__ = ["recorded_scenario", "recorded_trace"]


def recorded_trace(attempts: DataFrame) -> DataFrame:
    """Attempts that finished and are known to have been published at some time."""
    whole = attempts.where("runtime is not null and published is not null and queue is not null")
    return whole.select(
        F.concat_ws("/", "id", "retries").alias("id"),
        "queue",
        F.coalesce("task", F.lit("")).alias("task"),
        "cost_key",
        "published",
        F.greatest("runtime", F.lit(0.0)).alias("runtime"),
    )


def recorded_scenario(processes: DataFrame) -> Scenario:
    """Return the quanta that the workers had last, and the most slots that they had at once."""
    workers = processes.where("boot = worker and concurrency is not null")
    until = F.coalesce("ended_at", "last_at")
    changes = workers.select(F.col("first_at").alias("at"), F.col("concurrency").alias("slots"))
    changes = changes.unionByName(
        workers.select(until.alias("at"), (-F.col("concurrency")).alias("slots"))
    )
    total = F.expr("sum(slots) over (order by at, slots rows unbounded preceding)")
    most = changes.select(total.alias("slots")).agg(F.max("slots").alias("most")).first()
    quanta = (
        workers.select("last_at", F.explode("quanta"))
        .groupBy("key")
        .agg(F.max_by("value", "last_at").alias("quantum"))
        .where("quantum > 0")
        .collect()
    )
    slots = most["most"] if most is not None and most["most"] else 1
    queues = {row["key"]: Plan(quantum=row["quantum"]) for row in quanta}
    return Scenario("recorded", concurrency=int(slots), queues=queues)
