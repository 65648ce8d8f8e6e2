"""What the report shows, brought to the driver: bounded numbers of rows, whatever the history."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from celery_fair.pipeline.gold.audit import VERDICTS, audit_by_key, worst_first
from celery_fair.pipeline.gold.costs import costs, costs_by_key
from celery_fair.pipeline.gold.fairness import by_queue, fairness
from celery_fair.pipeline.gold.fairness_by_key import by_key, fairness_by_key
from celery_fair.pipeline.gold.waits import capacity, first_waits, waits
from celery_fair.pipeline.publish import publish, publish_audit
from celery_fair.pipeline.silver.clocks import is_true
from celery_fair.pipeline.warehouse import Warehouse

Row = dict[str, Any]
Figures = dict[str, Any]
"""Everything in the report, by name."""

POINTS = 120
"""Intervals that a chart shows, about."""
INTERVAL = 60.0
"""Seconds over which shares are judged at the least: in less time a queue that gets nothing has
missed no more than the scheduler may owe.
"""
QUEUES = 12
ROWS = 40
_DRAWN = 20 * POINTS
"""Intervals that are told apart in a chart, at the most."""
_NICE = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400, 604800)
_BAD = ("DUPLICATE", "LOST", "UNKNOWN")


def figures(
    warehouse: Warehouse,
    interval: float | None,
    say: Callable[[str], None],
    complete_since: float | None = None,
    redelivered_within: float | None = None,
) -> Figures:
    """Make all gold tables, and return the report's part of them.

    Of all queues `judged`, so many are `unfair`; `queues` are not all of them, nor `waits` all of
    those that have `started` something. `drawn` is the length of the charts' intervals. `by_key` is
    None if no message has a key; there `unfair` counts keys.

    Arguments:
        interval: what shares are judged over and charts drawn by; None: some that fit.
        complete_since, redelivered_within: `since` and `within` of `gold.audit`.
    """
    processes = warehouse.table("processes")
    (state,) = _rows(_states(processes))
    since, until = state["since"] or 0.0, state["until"] or 0.0
    fine = interval or nice_interval(until - since)
    interval = interval or max(INTERVAL, fine)
    drawn = fine * max(1, math.ceil((until - since) / fine / _DRAWN))
    shares = publish(warehouse, say, fairness, interval=interval)
    queues, judged, unfair = first_queues(by_queue(shares))
    if fine < interval:  # what is judged stays published, too
        attempts, backlog = warehouse.table("attempts"), warehouse.table("backlog")
        shares = fairness(attempts, backlog, processes, fine)
    waited = publish(warehouse, say, waits)
    audited = publish_audit(warehouse, say, complete_since, redelivered_within)
    slots = publish(warehouse, say, capacity, interval=fine)
    learnt = publish(warehouse, say, costs)
    counts = {row["verdict"]: row["count"] for row in _rows(audited.groupBy("verdict").count())}
    bad = audited.where(F.col("verdict").isin(*_BAD))
    return {
        "since": since,
        "until": until,
        "interval": interval,
        "drawn": drawn,
        "queues": queues,
        "judged": judged,
        "unfair": unfair,
        "shares": _over_time(shares, [row["queue"] for row in queues], drawn),
        "waits": _rows(waited.orderBy(F.desc("started"), "queue"), QUEUES),
        "started": waited.count(),
        "verdicts": {verdict: counts.get(verdict, 0) for verdict in VERDICTS},
        "troubles": _rows(bad.orderBy(worst_first(), "id")),
        "letters": _rows(_letters(audited)),
        "capacity": in_use(slots, drawn),
        "costs": _rows(learnt.orderBy(F.desc("seconds"), "task", "cost_key")),
        "processes": state,
        "quarantine": _rows(warehouse.table("quarantine").groupBy("reason").count()),
        "by_key": _by_key(warehouse, interval, audited, say),
    }


def _by_key(
    warehouse: Warehouse, interval: float, audited: DataFrame, say: Callable[[str], None]
) -> Figures | None:
    if not audited.where("key is not null").take(1):
        return None
    keys = by_key(publish(warehouse, say, fairness_by_key, interval=interval)).cache()
    took = publish(warehouse, say, costs_by_key)
    counts = publish(warehouse, say, audit_by_key, audit=audited)
    waited = publish(warehouse, say, first_waits)
    unfair = F.col("verdict").eqNullSafe("UNFAIR")
    return {
        "keys": _rows(keys.orderBy(~unfair, F.desc("served"))),
        "unfair": keys.where(unfair).count(),
        "first_waits": _rows(waited.orderBy(F.desc("started"))),
        "costs": _rows(took.orderBy(F.desc("seconds"), "queue", "tenant")),
        "audit": _rows(counts.orderBy(F.desc("to_look_at"), F.desc("attempts"), "tenant")),
    }


def nice_interval(seconds: float) -> float:
    """Return a round number of seconds that divides so many into about a hundred intervals."""
    return float(next((each for each in _NICE if each * POINTS >= seconds), _NICE[-1]))


def _rows(table: DataFrame, most: int | None = ROWS) -> list[Row]:
    table = table if most is None else table.limit(most)
    return [row.asDict(recursive=True) for row in table.collect()]


def _states(processes: DataFrame) -> DataFrame:
    last = F.col("last_at")
    return processes.agg(
        F.coalesce(F.min("dated_at"), F.min("first_at")).alias("since"),
        # One clock that is ahead would stretch all intervals.
        F.coalesce(F.max(F.when(is_true("last_at"), last)), F.max(last)).alias("until"),
        F.count(F.lit(1)).alias("processes"),
        F.count_if(F.col("liveness") == "silent").alias("silent"),
        F.count_if(~F.col("complete")).alias("incomplete"),
        F.coalesce(F.sum("missing"), F.lit(0)).alias("missing"),
        F.coalesce(F.sum("dropped"), F.lit(0)).alias("dropped"),
    )


def first_queues(judged: DataFrame) -> tuple[list[Row], int, int]:
    """Return the queues that are shown; of how many they are, and how many of all are unfair.

    The first are unfair ones, and of these such as got least of their due.
    """
    rows = _rows(judged, None)

    def place(row: Row) -> tuple[float, float, str]:
        missed = row["deviation"] if row["verdict"] == "UNFAIR" else math.inf
        return missed, -(row["seconds"] or 0.0), row["queue"]

    unfair = {row["queue"] for row in rows if row["verdict"] == "UNFAIR"}
    every = {row["queue"] for row in rows}
    return sorted(rows, key=place)[:QUEUES], len(every), len(unfair)


def _over_time(shares: DataFrame, queues: list[str], length: float) -> list[Row]:
    """Shares and targets of some queues by intervals of a length, of all workers together."""
    shown = shares.where(F.col("queue").isin(*queues) & F.col("total").isNotNull())
    parts = {"share": "served / total", "target": "due / total"}
    return _points(shown, length, ("served", "due", "total"), parts, "queue", lines=QUEUES)


def in_use(capacity: DataFrame, length: float) -> list[Row]:
    """The part of the slots that was in use, by intervals of a length."""
    parts = {"utilisation": "busy_seconds / slot_seconds"}
    return _points(capacity, length, ("busy_seconds", "slot_seconds"), parts)


def _points(
    rows: DataFrame,
    length: float,
    sums: Sequence[str],
    parts: Mapping[str, str],
    *by: str,
    lines: int = 1,
) -> list[Row]:
    """Points of a chart, in the order of time: all, unless a clock was wrong by years."""
    # An interval is in a longer one by its middle, for its begin may be rounded down.
    since = (F.floor(F.expr("(since + until) / 2") / length) * length).alias("since")
    summed = rows.groupBy(since, *by).agg(*(F.sum(name).alias(name) for name in sums))
    made = summed.select("since", *by, *(F.expr(text).alias(name) for name, text in parts.items()))
    return _rows(made.orderBy(F.desc("since")), lines * (_DRAWN + 2))[::-1]


def _letters(audited: DataFrame) -> DataFrame:
    rejected = audited.where("rejections > 0")
    return (
        rejected.groupBy("queue", "reason")
        .agg(
            F.count(F.lit(1)).alias("letters"),
            F.count_if(F.col("verdict") == "REPLAYABLE").alias("replayable"),
            F.count_if(F.col("verdict") == "UNKNOWN").alias("unknown"),
            F.count_if(F.col("starts") > 0).alias("started"),
        )
        .orderBy(F.desc("letters"), "queue", "reason")
    )
