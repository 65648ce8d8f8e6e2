"""What the workers themselves recorded."""

from collections.abc import Iterator

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from celery_fair.eventlog.records import KINDS
from celery_fair.pipeline.replay.scenario import Scenario
from celery_fair.pipeline.silver.clocks import is_true
from celery_fair.pipeline.silver.processes import BEATS
from celery_fair.pipeline.traces.handover import with_handover
from celery_fair.pipeline.traces.workers import Said, scenario_of

__all__ = ["recorded_scenario", "recorded_trace"]

_KINDS = ("process", "queue", "settings")
_OWN = tuple(dict.fromkeys(name for kind in _KINDS for name in KINDS[kind] if name != "queue"))
_ENDS = ("exit", "dead")


def recorded_trace(attempts: DataFrame, processes: DataFrame) -> DataFrame:
    """Attempts that finished and are known to have been published at some time."""
    whole = with_handover(attempts, processes).where(
        "runtime is not null and published is not null and queue is not null"
    )
    return whole.select(
        F.concat_ws("/", "id", "retries").alias("id"),
        "queue",
        F.coalesce("task", F.lit("")).alias("task"),
        "cost_key",
        "published",
        F.greatest("runtime", F.lit(0.0)).alias("runtime"),
        "key",
        "handover",
        "transit",
    )


def recorded_scenario(events: DataFrame, attempts: DataFrame) -> Scenario:
    """Return what the workers shared their slots by, and how many there were when.

    A custom cost cannot be replayed: each message then costs one.
    """
    last = attempts.where("queue is not null").groupBy("queue").agg(F.max("last_started_at"))
    return scenario_of(_said(events), {queue: at for queue, at in last.collect() if at is not None})


def _said(events: DataFrame) -> list[Said]:
    """What was said by workers' main processes that they had not said before."""
    mains = events.where("kind = 'process' and parent = boot").select("boot").distinct()
    said = events.where(F.col("kind").isin(*_KINDS)).join(F.broadcast(mains), "boot", "left_semi")
    in_order = Window.partitionBy("boot", "kind", "queue").orderBy("at", "seq")
    news = said.withColumn("news", F.xxhash64(*_news()))
    changed = news.withColumn("old", F.lag("news").over(in_order))
    kept = changed.where(F.col("old").isNull() | (F.col("news") != F.col("old")))
    rows = kept.select("boot", "kind", "queue", "at", "seq", *_OWN).collect()
    every = [*(row.asDict() for row in rows), *_silent(events)]
    return sorted(every, key=lambda each: (each["at"], each["seq"] or 0))


def _news() -> Iterator[Column]:
    """By what two records of one kind, worker and queue are told apart."""
    of_queue = (F.col("kind") == "queue") & (F.col("state") == "unassigned")
    yield F.coalesce(of_queue, F.lit(False))
    yield F.coalesce(F.col("state").isin(*_ENDS), F.lit(False))
    for name in _OWN:
        if name not in ("state", "since", "depth", "dropped"):
            yield F.to_json(F.struct(name))


def _silent(events: DataFrame) -> list[Said]:
    """Workers that have not ended, and are not heard of any more."""
    of_worker = (
        events.where("boot is not null")
        .groupBy("boot")
        .agg(
            F.max("at").alias("at"),
            F.max("heartbeat").alias("heartbeat"),
            F.max(F.coalesce(F.col("state").isin(*_ENDS), F.lit(False))).alias("ended"),
        )
    )
    horizon = of_worker.where(is_true("at")).agg(F.max("at").alias("horizon"))
    silent = of_worker.crossJoin(F.broadcast(horizon)).where(
        f"not ended and at < horizon - {BEATS} * heartbeat"
    )
    rows = silent.select("boot", "at").collect()
    return [
        {"boot": row["boot"], "kind": "silent", "queue": None, "at": row["at"], "seq": None}
        for row in rows
    ]
