"""Gold: what became of each attempt, as far as the log can prove it.

================  ==================================================================================
DUPLICATE         started twice
DEAD_LETTERED     rejected, though it was or may have been started before
REPLAYABLE        rejected and provably never started
FINISHED          started once and finished
LOST              started once, not finished, and its process is gone
RUNNING           started once, not finished, and its process is alive
UNKNOWN           the log does not have what a verdict needs
================  ==================================================================================

What proves that nothing was started is the absence of a record, and it proves that only where no
record can be missing. `celery_fair.pipeline.gold.doubts` says when one may be missing, and of which
queues. A dead letter is REPLAYABLE if no such doubt touches its queue between its publication and
its rejection. These are times of different hosts, whose clocks may differ by `CLOCKS`; where they
show more, or were not set, whatever doubt there is about the queue counts. There is a premise that
no log can prove: *every* worker that consumed the queue in that time wrote its log to the folder
that was ingested, and none of its files was removed as a whole. `since` says from when on that is
true; a message published before is UNKNOWN.

FINISHED and LOST say that there was one start, and so rest on the absence of a second one, which
may have come at any time after the publication: any doubt about the queue since then makes them
UNKNOWN. What is still open is none to FINISHED, which speaks of what has been read. `within` bounds
it: it says how long after a start a message may be delivered again.

LOST and RUNNING rest on the absence of a `finished` record, too. They need the log of the process
that began the task, and of its parent, which under prefork may report the end, from the start on.
It does so soon after the process has ended: so LOST also needs the parent's end, or its log up to
`REPORTED` after that. Whoever gets the message next has it by then, too: all who consume the queue
must have been heard of for as long.

What is UNKNOWN has a reason, `why`, and where that is a doubt, whose log it is, and from when until
when.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from celery_fair.pipeline.gold.keys import keyed, top
from celery_fair.pipeline.silver.clocks import is_true

VERDICTS = (
    "DUPLICATE",
    "LOST",
    "UNKNOWN",
    "DEAD_LETTERED",
    "REPLAYABLE",
    "RUNNING",
    "FINISHED",
)
"""The worst first."""

WELL = ("FINISHED", "RUNNING")
"""Those that nobody need look at."""

CLOCKS = 10.0
"""Seconds by which two hosts' clocks may differ."""

REPORTED = 30.0
"""Seconds after a child process's end within which its worker has said so of the task that it ran.
Celery learns of the end at once, or waits for ten seconds whether a result comes after all."""


_EVER, _FOR_EVER = float("-inf"), float("inf")

_ABOUT = {"since": "double", "until": "double", "node": "string", "pid": "bigint", "boot": "string"}
"""What a doubt has besides its reason."""

_DOUBT = f"struct<{', '.join(f'{name}:{kind}' for name, kind in _ABOUT.items())}, why:string>"


def audit(
    attempts: DataFrame,
    processes: DataFrame,
    doubts: DataFrame,
    since: float | None = None,
    within: float | None = None,
) -> DataFrame:
    """One row per attempt, with its verdict.

    Arguments:
        doubts: what `celery_fair.pipeline.gold.doubts` has found.
        since: from when on the log has every worker; None: from before the first message.
        within: seconds after a start within which its message may be delivered again; None: it may
            be at any time.
    """
    judged = _with_doubts(_with_owner(attempts, processes, doubts), doubts)
    judged = judged.withColumns(_proofs(since, within)).withColumn("judged", _verdict())
    return judged.select(
        "id",
        "retries",
        F.col("judged.verdict").alias("verdict"),
        "task",
        "queue",
        "key",
        "repeatable",
        "published",
        "started_at",
        "finished_at",
        "rejected_at",
        "state",
        "reason",
        "starts",
        "finishes",
        "rejections",
        "node",
        "pid",
        "boot",
        F.col("judged.doubt.why").alias("why"),
        *(F.col(f"judged.doubt.{name}").alias(f"doubt_{name}") for name in _ABOUT),
    )


def worst_first() -> Column:
    """What to order audited attempts by, so that those to look at come first."""
    return F.array_position(F.lit(list(VERDICTS)), F.col("verdict"))


def changes(before: DataFrame, audit: DataFrame) -> DataFrame:
    """What was said of an attempt otherwise before: its verdict then (`before`), and now.

    Arguments:
        before: an audit of a log that had less.
    """
    keys = ["id", "retries"]
    said = before.select(*keys, F.col("verdict").alias("before"))
    # Hardly anything has changed that is FINISHED in both, which nearly all is.
    unsettled = said.where("before <> 'FINISHED'").select(*keys)
    unsettled = unsettled.union(audit.where("verdict <> 'FINISHED'").select(*keys)).distinct()
    return (
        said.join(unsettled, keys, "left_semi")
        .join(audit.select(*keys, "verdict", "queue", "why"), keys)
        .where("before <> verdict")
        .select(*keys, "queue", "before", "verdict", "why")
    )


def audit_by_key(audit: DataFrame) -> DataFrame:
    """One row per queue and tenant.

    Those with most attempts that are neither finished nor running, then those with most.
    """
    counts = {name.lower(): F.count_if(F.col("verdict") == name) for name in VERDICTS}
    by_key = (
        keyed(audit)
        .groupBy("queue", "tenant")
        .agg(
            F.count(F.lit(1)).alias("attempts"),
            F.count_if(~F.col("verdict").isin(*WELL)).alias("to_look_at"),
            *(count.alias(name) for name, count in counts.items()),
        )
    )
    return top(by_key, ("queue",), ("tenant",), F.struct("to_look_at", "attempts"))


def _with_owner(attempts: DataFrame, processes: DataFrame, found: DataFrame) -> DataFrame:
    """Attempts with the process that began them, and the last doubt about its log."""
    key = ["node", "pid", "boot"]
    lasting = (
        found.where("not open")
        .groupBy(*key)
        .agg(F.max_by(_struct(), "until").alias("doubt_of_owner"))
    )
    known = processes.join(lasting, key, "left")
    parents = known.select(
        "node",
        F.col("boot").alias("worker"),
        F.col("doubt_of_owner").alias("doubt_of_parent"),
        F.col("ended_at").isNotNull().alias("ended_parent"),
        F.col("last_at").alias("last_of_parent"),
    )
    heard = is_true("ended_at") & (F.col("last_of_parent") >= F.col("ended_at") + REPORTED)
    owners = known.join(parents, ["node", "worker"], "left").select(
        *key,
        "liveness",
        F.col("ended_at").alias("owner_ended_at"),
        (F.col("ended_parent") | heard).alias("reported"),
        "doubt_of_owner",
        "doubt_of_parent",
    )
    return attempts.join(F.broadcast(owners), key, "left")


def _struct() -> Column:
    return F.struct(*_ABOUT, "why")


def _with_doubts(attempts: DataFrame, found: DataFrame) -> DataFrame:
    """Attempts with the doubts about their queue: `hidden`, and the first that is `open`.

    Of those that last for ever the first is enough.
    """
    by_queue = found.withColumn("queue", F.explode_outer("queues"))
    named = by_queue.where("queue is not null").groupBy("queue").agg(*_gathered(""))
    unnamed = found.where("queues is null").agg(*_gathered("_any"))
    every = found.agg(*_gathered("_every"))
    where = attempts.withColumn("at", F.when(~F.coalesce("moved", F.lit(False)), F.col("queue")))
    joined = (
        where.join(F.broadcast(named.withColumnRenamed("queue", "at")), "at", "left")
        .crossJoin(F.broadcast(unnamed))
        .crossJoin(F.broadcast(every))
    )
    none, nowhere = F.array().cast(f"array<{_DOUBT}>"), F.col("at").isNull()
    hidden = F.concat(F.coalesce("hidden", none), F.coalesce("hidden_any", none))
    opened = F.array_min(F.array("open", "open_any"))
    return joined.withColumns(
        {
            "hidden": F.when(nowhere, F.col("hidden_every")).otherwise(hidden),
            "open": F.when(nowhere, F.col("open_every")).otherwise(opened),
        }
    )


def _gathered(suffix: str) -> list[Column]:
    lasts = F.col("until") == _FOR_EVER
    bounded = F.collect_list(F.when(~F.col("open") & ~lasts, _struct()))
    forever = F.min(F.when(~F.col("open") & lasts, _struct()))
    every = F.array_compact(F.concat(bounded, F.array(forever)))
    return [
        every.alias(f"hidden{suffix}"),
        F.min(F.when(F.col("open"), _struct())).alias(f"open{suffix}"),
    ]


def _proofs(since: float | None, within: float | None) -> dict[str, Column]:
    """`unstarted` and `again`: what lets it be doubted that there was no start, or one only."""
    published = F.when(is_true("published_first"), F.col("published_first"))
    begun = F.coalesce(published, F.lit(_EVER)) - CLOCKS
    rejected, again = F.col("rejected_at") + CLOCKS, F.lit(_FOR_EVER)
    # Clocks that show this tell nothing of what was when at other hosts.
    odd = ~is_true("published_first") | ~is_true("rejected_at") | (begun > rejected)
    if within is not None:
        again = F.when(is_true("last_started_at"), F.col("last_started_at") + within + CLOCKS)
        again = F.coalesce(again, F.lit(_FOR_EVER))
    # It was published before it was started, whatever the publisher's clock says.
    started = F.when(is_true("started_at"), F.col("started_at") - CLOCKS).otherwise(_EVER)
    first = F.when(F.col("started_at").isNull(), begun).otherwise(F.least(begun, started))
    every = F.concat("hidden", F.array_compact(F.array("open")))
    unstarted = F.when(odd, F.get(every, F.lit(0))).otherwise(_touched(every, begun, rejected))
    unknown = _why("it does not say when it was published")
    before = F.lit(False) if since is None else F.col("published_first") < since
    undated = F.lit(False) if since is None else F.col("published_first").isNull()
    late = _why("it was published before all logs were complete")
    return {
        "unstarted": F.when(F.col("published_first").isNull(), unknown)
        .when(before, late)
        .otherwise(unstarted),
        "again": F.when(undated, unknown)
        .when(before, late)
        .otherwise(_touched(F.col("hidden"), first, again)),
    }


def _touched(found: Column, since: Column, until: Column) -> Column:
    """The first of some doubts that is about any of a time; null if none is."""
    touching = F.filter(found, lambda each: (each["since"] < until) & (each["until"] >= since))
    return F.get(touching, F.lit(0))


def _why(text: str) -> Column:
    """A doubt that is not about a process's log."""
    nothing = (F.lit(None).cast(kind).alias(name) for name, kind in _ABOUT.items())
    return F.struct(*nothing, F.lit(text).alias("why"))


def _verdict() -> Column:
    """The verdict and, if it is UNKNOWN, `doubt`."""
    rejected, started = F.col("rejections") > 0, F.col("starts") > 0
    replayed = F.col("started_at") > F.col("rejected_at") + CLOCKS
    unfinished = F.col("finishes") == 0
    of_owner, of_parent = F.col("doubt_of_owner"), F.col("doubt_of_parent")
    may_come = (F.col("liveness") == "ended") & F.col("reported")
    unheard = F.col("open").isNotNull() & (
        ~is_true("owner_ended_at") | (F.col("open.since") < F.col("owner_ended_at") + REPORTED)
    )
    return (
        F.when(F.col("starts") > 1, _said("DUPLICATE"))
        .when(
            rejected & (started | ~unfinished) & ~F.coalesce(replayed, F.lit(False)),
            _said("DEAD_LETTERED"),
        )
        .when(rejected & ~started & (F.col("admissions") > 0), _said("UNKNOWN", _why(_ADMITTED)))
        .when(rejected & ~started & F.col("unstarted").isNull(), _said("REPLAYABLE"))
        .when(rejected & ~started, _said("UNKNOWN", F.col("unstarted")))
        .when(~started, _said("UNKNOWN", _why("its start is not in the log")))
        .when(~unfinished & F.col("again").isNull(), _said("FINISHED"))
        .when(~unfinished, _said("UNKNOWN", F.col("again")))
        .when(F.col("liveness").isNull(), _said("UNKNOWN", _why("its process is not in the log")))
        .when(of_owner["until"] > F.col("started_at"), _said("UNKNOWN", of_owner))
        .when(of_parent["until"] > F.col("started_at"), _said("UNKNOWN", of_parent))
        .when(F.col("liveness") == "alive", _said("RUNNING"))
        .when(
            F.col("liveness") == "silent",
            _said("UNKNOWN", _why("its process has neither ended nor been heard of lately")),
        )
        .when(F.col("again").isNotNull(), _said("UNKNOWN", F.col("again")))
        .when(~F.coalesce(may_come, F.lit(False)), _said("UNKNOWN", _why(_REPORT)))
        .when(unheard, _said("UNKNOWN", F.col("open")))
        .otherwise(_said("LOST"))
    )


_ADMITTED = "it was about to be started, and whether it was is not in the log"
_REPORT = "the worker of its process, which has ended, may not have told its end yet"


def _said(verdict: str, doubt: Column | None = None) -> Column:
    why = F.lit(None).cast(_DOUBT) if doubt is None else doubt
    return F.struct(F.lit(verdict).alias("verdict"), why.alias("doubt"))
