"""Gold: did each queue get its share of the worker, interval by interval?

The share that is due
---------------------
The resource is processing time. While a set B of queues is backlogged, queue i is due the part
``Q_i / Σ_{j∈B} Q_j`` of what is worked off. The set changes all the time; what is due over a longer
time is the sum of what was due while each set lasted. Let, at each start of a task of run time r,

    V grow by r / Σ_{j∈B} Q_j        W grow by r

V is the virtual time of fair queueing (Demers, Keshav & Shenker, "Analysis and simulation of a fair
queueing algorithm", 1989; Parekh & Gallager, 1993). Over a time in which i is backlogged throughout
it is due ``Q_i ΔV`` out of ``ΔW``. So

    target = Σ Q_i ΔV / Σ ΔW        share = (run time of its starts) / Σ ΔW

over the pieces of the interval in which i is backlogged. If the set never changes, the target is
``Q_i / Σ Q``. Starts count only while at least two queues of the class are backlogged: a queue that
is alone gets everything whatever its quantum. Queues are compared with those of their class, for a
higher class owes a lower one nothing.

Two views
---------
*here*: backlogged is who is `ready`, as the scheduler sees it. *demand*: also who is starved, empty
at the worker while the broker had messages. Shares and targets in the table are by demand.

Verdicts
--------
ALONE              nothing to compare with
HELD               its own leash or cap held it back for more than a tenth of the time it had work
STARVED_BY_BROKER  short of its share by demand, and starved for more than a tenth of that time
UNFAIR             off by more than the tolerance, and what starved queues left does not explain it
FAIR               else

Off by less than the bound of deficit round robin is never unfair, however short the interval: with
q the least quantum, Max the longest run time and s the seconds of work per unit of cost, that is
``Q_i / q (2 Max + q s)`` seconds (Shreedhar & Varghese, 1995).
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from celery_fair.pipeline.gold.buckets import bounds, cut

__all__ = ["TOLERANCE", "by_queue", "fairness"]

TOLERANCE = 0.05
NOTABLE = 0.1
"""Part of the time from which on starvation or a leash explains a share."""

_WORKER = ("node", "worker")
_GROUP = (*_WORKER, "level", "bucket")
_KEY = (*_GROUP, "queue")
_SECONDS = ("ready_seconds", "starved_seconds", "held_seconds")


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
    starts = _with_state(_starts(attempts, processes, interval), pieces)
    here = _shares(pieces, starts, F.col("state") == "ready")
    demand = _shares(pieces, starts, (F.col("state") == "ready") | F.col("starved"))
    surplus = here.select(*_KEY, _off(tolerance).alias("off_here"))
    judged = (
        _times(pieces)
        .join(demand, list(_KEY), "left")
        .join(surplus, list(_KEY), "left")
        .withColumn("off", _off(tolerance))
    )
    return _concluded(judged, interval)


def _pieces(backlog: DataFrame, interval: float) -> DataFrame:
    """Backlog intervals, cut where an interval of the result ends."""
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
            "quantum",
        )
    )


def _starts(attempts: DataFrame, processes: DataFrame, interval: float) -> DataFrame:
    """What was done, under the worker whose scheduler chose it."""
    workers = processes.select("node", "pid", "boot", "worker")
    worked = attempts.where("runtime is not null and starts > 0")
    return worked.join(F.broadcast(workers), ["node", "pid", "boot"]).select(
        *_WORKER,
        "queue",
        F.floor(F.col("started_at") / interval).alias("bucket"),
        F.col("started_at").alias("from"),
        "runtime",
        F.coalesce("cost", F.lit(1.0)).alias("cost"),
    )


def _with_state(starts: DataFrame, pieces: DataFrame) -> DataFrame:
    """Starts with the state that their queue was in: that of the last piece which began before."""
    so_far = (
        Window.partitionBy(*_WORKER, "queue", "bucket")
        .orderBy("from", "is_start")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    both = starts.unionByName(pieces, allowMissingColumns=True)
    # Windows are sorted by columns: by an expression each of them would be sorted anew.
    both = both.withColumn("is_start", F.col("runtime").isNotNull())
    last = {
        name: F.last(name, ignorenulls=True).over(so_far) for name in ("state", "starved", "level")
    }
    return (
        both.withColumns(last)
        .where("is_start and state is not null")
        .select(*_KEY, "from", "runtime", "cost", "state", "starved")
    )


def _shares(pieces: DataFrame, starts: DataFrame, backlogged: Column) -> DataFrame:
    """What each queue got and was due while it was backlogged, in one sense of the word."""
    steps = _steps(pieces.where(backlogged)).unionByName(
        starts.where(backlogged).select(*_KEY, F.col("from").alias("at"), "runtime", "cost"),
        allowMissingColumns=True,
    )
    # Ends before beginnings before starts, when all are of one moment.
    so_far = (
        Window.partitionBy(*_GROUP)
        .orderBy("at", "turn")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    contended = F.col("runtime").isNotNull() & (F.sum("step").over(so_far) >= 2)
    return (
        steps.withColumn("turn", F.coalesce("step", F.lit(2)))
        .withColumn("quanta", F.sum(F.col("step") * F.col("quantum")).over(so_far))
        .withColumn("work", F.when(contended, F.col("runtime")).otherwise(0.0))
        .withColumn("charge", F.when(contended, F.col("cost")).otherwise(0.0))
        .withColumn("v", F.sum(F.when(F.col("work") > 0, F.expr("work / quanta"))).over(so_far))
        .withColumn("w", F.sum("work").over(so_far))
        .groupBy(*_KEY)
        .agg(*_sums())
        .where("total > 0")
    )


def _steps(pieces: DataFrame) -> DataFrame:
    """Two rows for each piece: +1 where it begins, -1 where it ends."""
    ends = F.array(
        F.struct(F.col("from").alias("at"), F.lit(1).alias("step")),
        F.struct(F.col("to").alias("at"), F.lit(-1).alias("step")),
    )
    return pieces.withColumn("end", F.explode(ends)).select(
        *_KEY, F.col("end.at").alias("at"), F.col("end.step").alias("step"), "quantum"
    )


def _sums() -> list[Column]:
    v = F.coalesce("v", F.lit(0.0))
    return [
        F.sum("work").alias("seconds"),
        F.sum("charge").alias("charged"),
        F.max("work").alias("longest"),
        (-F.sum(F.col("step") * F.col("quantum") * v)).alias("due"),
        (-F.sum(F.col("step") * F.col("w"))).alias("total"),
        F.max("quantum").alias("of_quantum"),
    ]


def _off(tolerance: float) -> Column:
    """How much more than its due a queue got, as a part of it; null if within the bound."""
    group = Window.partitionBy(*_GROUP)
    least = F.min("of_quantum").over(group)
    per_cost = F.sum("seconds").over(group) / F.nullif(F.sum("charged").over(group), F.lit(0.0))
    longest = F.max("longest").over(group)
    bound = F.col("of_quantum") / least * (2 * longest + least * F.coalesce(per_cost, F.lit(0.0)))
    difference = F.col("seconds") - F.col("due")
    notable = (F.abs(difference) > bound) & (F.abs(difference) > tolerance * F.col("due"))
    return F.when(notable, difference / F.col("due"))


def _times(pieces: DataFrame) -> DataFrame:
    length = F.col("to") - F.col("from")
    states = {"ready": F.col("state") == "ready", "starved": F.col("starved")}
    states["held"] = F.col("state") == "throttled"
    sums = [
        F.sum(F.when(state, length).otherwise(0.0)).alias(f"{name}_seconds")
        for name, state in states.items()
    ]
    # A bucket in which a queue only was empty says nothing of it.
    return (
        pieces.groupBy(*_KEY)
        .agg(F.max("quantum").alias("quantum"), *sums)
        .where("ready_seconds + starved_seconds + held_seconds > 0")
    )


def _concluded(judged: DataFrame, interval: float) -> DataFrame:
    group = Window.partitionBy(*_GROUP)
    ratio = F.col("seconds") / F.col("due")
    sum_, squares, count = (f.over(group) for f in (F.sum(ratio), F.sum(ratio**2), F.count(ratio)))
    jain = sum_**2 / F.nullif(count * squares, F.lit(0.0))
    return judged.select(
        *_WORKER,
        *bounds(interval),
        "queue",
        "level",
        "quantum",
        "seconds",
        "due",
        "total",
        (F.col("seconds") / F.col("total")).alias("share"),
        (F.col("due") / F.col("total")).alias("target"),
        (ratio - 1).alias("deviation"),
        jain.alias("jain"),
        *_SECONDS,
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
        .otherwise("UNFAIR")
    )


def by_queue(made: DataFrame) -> DataFrame:
    """The table summed up over workers and intervals, one row per queue.

    The target is that of all work that was contended, wherever and whenever it was.
    """
    counted = made.groupBy("queue", "verdict").agg(F.count(F.lit(1)).alias("of_verdict"))
    verdicts = counted.groupBy("queue").agg(
        F.map_from_entries(F.collect_list(F.struct("verdict", "of_verdict"))).alias("verdicts")
    )
    sums = made.groupBy("queue").agg(
        F.max("quantum").alias("quantum"),
        F.count(F.lit(1)).alias("intervals"),
        *(F.sum(name).alias(name) for name in ("seconds", "due", "total", *_SECONDS)),
    )
    return (
        sums.join(verdicts, "queue")
        .select(
            "queue",
            "quantum",
            "intervals",
            "seconds",
            F.expr("seconds / total").alias("share"),
            F.expr("due / total").alias("target"),
            F.expr("seconds / due - 1").alias("deviation"),
            *_SECONDS,
            "verdicts",
        )
        .orderBy("queue")
    )
