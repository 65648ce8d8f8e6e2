"""What the workers themselves recorded."""

from pyspark.sql import Column, DataFrame
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
    """Return what the workers shared their slots by last, and the most slots they had at once.

    A leash or a cap that each worker has of its own is taken times the workers that there were at
    once. Of a queue that differs between workers, the one counts that was heard of last.
    """
    workers = processes.where("boot = worker and concurrency is not null")
    slots, count = _most(workers, F.col("concurrency")), _most(workers, F.lit(1))
    each = {name: _by_queue(workers, name) for name in ("quanta", *_MAPS)}
    queues = {
        name: Plan(
            quantum=quantum,
            level=int(each["classes"].get(name, 0)),
            rate=_times(each["rates"].get(name), count) or each["shared_rates"].get(name),
            burst=_burst(name, each, count),
            max_in_flight=_whole(_times(each["caps"].get(name), count)),
        )
        for name, quantum in each["quanta"].items()
        if quantum > 0
    }
    last = workers.agg(*(F.max_by(name, "last_at").alias(name) for name in ("costs", "max_wait")))
    said = last.first()
    runtime = said is not None and said["costs"] == "runtime"
    return Scenario(
        "recorded",
        concurrency=slots,
        cost="runtime" if runtime else "one",
        max_wait=said["max_wait"] if said is not None else None,
        queues=queues,
    )


_MAPS = ("classes", "rates", "shared_rates", "bursts", "caps")


def _most(workers: DataFrame, what: Column) -> int:
    """Return the most of it that there was at once."""
    until = F.coalesce("ended_at", "last_at")
    changes = workers.select(F.col("first_at").alias("at"), what.alias("change"))
    changes = changes.unionByName(workers.select(until.alias("at"), (-what).alias("change")))
    total = F.expr("sum(change) over (order by at, change rows unbounded preceding)")
    most = changes.select(total.alias("total")).agg(F.max("total").alias("most")).first()
    return int(most["most"]) if most is not None and most["most"] else 1


def _by_queue(workers: DataFrame, name: str) -> dict[str, float]:
    """Return what was said last of each queue that was consumed."""
    said = workers.select("last_at", F.explode(name)).groupBy("key")
    rows = said.agg(F.max_by("value", "last_at").alias("value")).collect()
    return {row["key"]: row["value"] for row in rows}


def _burst(queue: str, each: dict[str, dict[str, float]], workers: int) -> float:
    burst = each["bursts"].get(queue, 1.0)
    return burst * workers if queue in each["rates"] else burst


def _times(value: float | None, workers: int) -> float | None:
    return None if value is None else value * workers


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
