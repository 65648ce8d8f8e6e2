"""Gold: did each queue get its share of the worker, interval by interval?

The share that is due
---------------------
What is shared is what the worker counts: its log says what costs are. If a message costs 1, shares
are of messages (`unit`), else of what was charged for them, and under ``fair_cost = "runtime"`` of
seconds; judged in another unit than it was shared in, a fair worker looks unfair. What was done in
seconds stands beside it.

While queues have messages each is due its part by their quanta; see `virtual_time`, with quanta for
weights:

    target = Σ Q_i ΔV / Σ ΔW        share = (what its starts came to) / Σ ΔW

over the pieces of the interval in which i is backlogged. If the set never changes, the target is
``Q_i / Σ Q``. Queues are compared with those of their class, for a higher class owes a lower one
nothing.

Two views
---------
*here*: backlogged is who is `ready`, as the scheduler sees it. *demand*: also who is starved, empty
at the worker while the broker had messages. Shares and targets in the table are by demand.

Verdicts
--------
ALONE              nothing to compare with
HELD               its own leash or cap held it back for more than a tenth of the time it had work
STARVED_BY_BROKER  short of its share by demand, and starved for more than a tenth of that time, or
                   on target of what there was here
UNFAIR             off by more than the tolerance, and what starved queues left does not explain it
FAIR               else

Off by less than what the scheduler may owe is never unfair. With q the least quantum, Max the
largest amount and s the amount per unit of cost, deficit round robin owes ``Q_i / q (2 Max + q s)``
(Shreedhar & Varghese, 1995), as often as queues have run out and come back in the interval
(`virtual_time`). Seconds are known when a task ends: so much as fills all slots is owed besides.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from celery_fair.pipeline.gold.pieces import amounts, bounds, cut, units
from celery_fair.pipeline.gold.virtual_time import shares

TOLERANCE = 0.05
NOTABLE = 0.1
"""Part of the time from which on starvation or a leash explains a share."""

_WORKER = ("node", "worker")
_GROUP = (*_WORKER, "level", "bucket")
_KEY = (*_GROUP, "queue")
_TIMES = ("ready_seconds", "starved_seconds", "held_seconds")
_HERE = "_here"
_SUMMED = ("served", "due", "total", "seconds", "total_seconds", *_TIMES)


def fairness(
    attempts: DataFrame,
    backlog: DataFrame,
    processes: DataFrame,
    interval: float = 60.0,
    tolerance: float = TOLERANCE,
) -> DataFrame:
    """One row per worker, queue and interval.

    Arguments:
        interval: length of an interval in seconds; they begin at multiples of it.
        tolerance: how far a share may be off, as a part of the target.
    """
    pieces = _pieces(backlog, interval)
    workers = units(processes)
    starts = _with_state(_starts(attempts, workers, interval), pieces)
    ready = F.col("state") == "ready"
    judged = (
        shares(
            pieces,
            starts,
            _GROUP,
            ["queue"],
            views={"": ready | F.col("starved"), _HERE: ready},
            besides=[F.sum(name).alias(name) for name in _TIMES],
        )
        # An interval in which a queue only was empty says nothing of it.
        .where("ready_seconds + starved_seconds + held_seconds > 0")
        .withColumns({f"off{view}": _off(tolerance, view) for view in ("", _HERE)})
        .join(F.broadcast(workers.select(*_WORKER, "unit").distinct()), list(_WORKER), "left")
    )
    return _concluded(judged, interval)


def _pieces(backlog: DataFrame, interval: float) -> DataFrame:
    """Backlog intervals, cut where an interval of the result ends."""
    length = F.col("to") - F.col("from")
    states = {"ready": F.col("state") == "ready", "starved": F.col("starved")}
    states["held"] = F.col("state") == "throttled"
    return (
        cut(backlog, "since", "until", interval)
        .where("quantum > 0")
        .select(
            "node",
            F.col("boot").alias("worker"),
            "queue",
            "level",
            "bucket",
            "from",
            "to",
            "state",
            "starved",
            F.col("quantum").alias("weight"),
            *(
                F.when(state, length).otherwise(0.0).alias(f"{name}_seconds")
                for name, state in states.items()
            ),
        )
    )


def _starts(attempts: DataFrame, workers: DataFrame, interval: float) -> DataFrame:
    """What was done, under the worker whose scheduler chose it."""
    known = workers.select("node", "pid", "boot", "worker", "unit", "slots")
    return amounts(attempts.join(F.broadcast(known), ["node", "pid", "boot"])).select(
        *_WORKER,
        "queue",
        F.floor(F.col("started_at") / interval).alias("bucket"),
        F.col("started_at").alias("from"),
        "amount",
        "charge",
        "seconds",
        "slots",
    )


def _with_state(starts: DataFrame, pieces: DataFrame) -> DataFrame:
    """Starts with the state that their queue was in: that of the last piece which began before."""
    so_far = (
        Window.partitionBy(*_WORKER, "queue", "bucket")
        .orderBy("from", "is_start")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    changes = pieces.select(*_KEY, "from", "state", "starved")
    both = starts.unionByName(changes, allowMissingColumns=True)
    # Windows are sorted by columns: by an expression each of them would be sorted anew.
    both = both.withColumn("is_start", F.col("amount").isNotNull())
    last = {
        name: F.last(name, ignorenulls=True).over(so_far) for name in ("state", "starved", "level")
    }
    return (
        both.withColumns(last)
        .where("is_start and state is not null")
        .select(*_KEY, "from", "amount", "charge", "seconds", "slots", "state", "starved")
    )


def _off(tolerance: float, view: str) -> Column:
    """How much more than its due a queue got, as a part of it; null if within the bound."""
    group = Window.partitionBy(*_GROUP)
    served, due, weight, longest, slots, charged, times = (
        F.col(f"{name}{view}")
        for name in ("served", "due", "weight", "longest", "slots", "charged", "times")
    )
    least, longest = F.min(weight).over(group), F.max(longest).over(group)
    per_cost = F.sum(served).over(group) / F.nullif(F.sum(charged).over(group), F.lit(0.0))
    each = 2 * longest + least * F.coalesce(per_cost, F.lit(0.0))
    bound = times * (weight / least * each + F.max(slots).over(group) * longest)
    notable = (F.abs(served - due) > bound) & (F.abs(served - due) > tolerance * due)
    return F.when(notable, (served - due) / due)


def _concluded(judged: DataFrame, interval: float) -> DataFrame:
    return judged.select(
        *_WORKER,
        *bounds(interval),
        "queue",
        "level",
        F.col("weighs").alias("quantum"),
        "unit",
        "served",
        "due",
        "total",
        *parts(),
        "seconds",
        "total_seconds",
        *_TIMES,
        _verdict().alias("verdict"),
    )


def _verdict() -> Column:
    held = F.expr("held_seconds / (ready_seconds + starved_seconds + held_seconds)")
    starved = F.expr("starved_seconds / nullif(ready_seconds + starved_seconds, 0)")
    return (
        F.when(held > NOTABLE, "HELD")
        .when(F.col("total").isNull(), "ALONE")
        .when(F.col("off").isNull(), "FAIR")
        .when((F.col("off") < 0) & (starved > NOTABLE), "STARVED_BY_BROKER")
        .when((F.col("off") > 0) & F.col("off_here").isNull(), "FAIR")
        .when(F.col("off_here").isNull(), "STARVED_BY_BROKER")
        .otherwise("UNFAIR")
    )


def by_queue(made: DataFrame, tolerance: float = TOLERANCE) -> DataFrame:
    """The table summed up over workers and intervals, one row per queue, and unit if there are two.

    The target is that of all work that was contended, wherever and whenever it was.
    """
    verdicts = F.map_from_entries(F.collect_list(F.struct("verdict", "count"))).alias("verdicts")
    return (
        summed_up(made, ["queue", "unit"], ["quantum"], _SUMMED, tolerance, verdicts)
        .select(
            "queue",
            "unit",
            "quantum",
            "intervals",
            "served",
            *parts(),
            "seconds",
            F.expr("seconds / nullif(total_seconds, 0)").alias("share_of_seconds"),
            *_TIMES,
            "unfair",
            "verdict",
            "verdicts",
        )
        .orderBy("queue", "unit")
    )


def summed_up(
    made: DataFrame,
    keys: Sequence[str],
    greatest: Sequence[str],
    sums: Sequence[str],
    tolerance: float,
    *others: Column,
) -> DataFrame:
    """Intervals, summed up by keys: how many `intervals`, the greatest and the sums of columns.

    `unfair` is the part of what was due that was due in intervals which are UNFAIR: so one in which
    next to nothing was due weighs next to nothing. If that is more than the tolerance, so is the
    whole; else its verdict is that of most of what was due, or of most intervals.
    """
    added = [F.max(name).alias(name) for name in greatest]
    added += [F.sum(name).alias(name) for name in sums]
    each = made.groupBy(*keys, "verdict").agg(
        F.count(F.lit(1)).alias("count"),
        F.coalesce(F.sum("due"), F.lit(0.0)).alias("owed"),
        *added,
    )
    is_unfair = F.col("verdict") == "UNFAIR"
    unfair = F.sum(F.when(is_unfair, F.col("owed"))) / F.sum("owed")
    summed = each.groupBy(*keys).agg(
        F.sum("count").alias("intervals"),
        F.max_by("verdict", F.struct("owed", "count")).alias("most"),
        F.coalesce(unfair, F.lit(0.0)).alias("unfair"),
        *added,
        *others,
    )
    verdict = F.when(F.col("unfair") > tolerance, "UNFAIR").when(F.col("most") == "UNFAIR", "FAIR")
    return summed.withColumn("verdict", verdict.otherwise(F.col("most")))


def parts() -> list[Column]:
    """What was served, and due, as parts of the whole; and of each other."""
    return [
        F.expr("served / total").alias("share"),
        F.expr("due / total").alias("target"),
        F.expr("served / due - 1").alias("deviation"),
    ]
