"""What the workers themselves recorded."""

from collections.abc import Callable
from functools import partial
from itertools import accumulate
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from celery_fair.pipeline.replay.scenario import Plan, Scenario
from celery_fair.pipeline.silver.processes import SHARING

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

    For each queue, the worker counts that consumed it and was heard of last, with everything that
    it reported. A leash or a cap that each worker has of its own is multiplied by the number of
    workers that consumed the queue at once. A custom cost cannot be replayed: each message then
    costs one.
    """
    known = [name for name in SHARING if name in processes.columns]  # older warehouses lack them
    until = F.coalesce("ended_at", "last_at").alias("until")
    workers = (
        processes.where("boot = worker and concurrency is not null")
        .select("first_at", until, "last_at", "concurrency", "quanta", *known)
        .orderBy("last_at")
        .collect()
    )
    said = [row.asDict() for row in workers]
    last = {queue: row for row in said for queue in _consumed(row)}
    costs = [row for row in said if row.get("costs") is not None]
    runtime = bool(costs) and costs[-1]["costs"] == "runtime"
    return Scenario(
        "recorded",
        concurrency=_most(said, lambda row: int(row["concurrency"])),
        cost="runtime" if runtime else "one",
        max_wait=costs[-1].get("max_wait") if costs else None,
        queues={
            queue: _plan(queue, row, _most(said, partial(_consumes, queue)))
            for queue, row in sorted(last.items())
        },
    )


def _consumed(row: dict[str, Any]) -> dict[str, float]:
    """The queues that a worker consumed last, with their quanta."""
    return {queue: quantum for queue, quantum in (row["quanta"] or {}).items() if quantum > 0}


def _consumes(queue: str, row: dict[str, Any]) -> int:
    return queue in _consumed(row)


def _plan(queue: str, row: dict[str, Any], workers: int) -> Plan:
    def of(name: str) -> float | None:
        return (row.get(name) or {}).get(queue)

    each, cap = of("rates"), of("caps")
    burst = of("bursts") or 1.0
    return Plan(
        quantum=row["quanta"][queue],
        level=int(of("classes") or 0),
        rate=of("shared_rates") if each is None else each * workers,
        burst=burst if each is None else burst * workers,
        max_in_flight=None if cap is None else int(cap) * workers,
    )


def _most(rows: list[dict[str, Any]], count: Callable[[dict[str, Any]], int]) -> int:
    """Return the most that there were at once, at least 1."""
    changes = [(row["first_at"], count(row)) for row in rows]
    changes += [(row["until"], -count(row)) for row in rows]
    return max(1, max(accumulate(change for _, change in sorted(changes)), default=1))
