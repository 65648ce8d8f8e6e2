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
record can be missing: every process that lived between the publication and the rejection has a
complete log (see `celery_fair.pipeline.silver.processes`) that reaches up to the rejection, or up
to the end of the process. These are times of different hosts, whose clocks may differ by `CLOCKS`.
Nor may there be a process of which nothing has been read yet: see
`celery_fair.pipeline.silver.unread`. There is a premise that no log can prove: *every* worker that
consumed the queue in that time wrote its log to the folder that was ingested, and none of its files
was removed as a whole. `since` says from when on that is true; a message published before is
UNKNOWN.

LOST and RUNNING rest on the absence of a `finished` record, too. They need the complete log of the
process that began the task and of its parent, which under prefork may report the end. It does so
soon after the process has ended: so LOST also needs the parent's end, or its log up to `REPORTED`
after that.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

__all__ = ["CLOCKS", "REPORTED", "VERDICTS", "audit", "replayable"]

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

CLOCKS = 10.0
"""Seconds by which two hosts' clocks may differ."""

REPORTED = 30.0
"""Seconds after a child process's end within which its worker has said so of the task that it ran.
Celery learns of the end at once, or waits for ten seconds whether a result comes after all."""


def audit(
    attempts: DataFrame,
    processes: DataFrame,
    since: float | None = None,
    unread: DataFrame | None = None,
) -> DataFrame:
    """One row per attempt, with its verdict.

    Arguments:
        since: from when on the log has every worker; None: from before the first message.
        unread: processes with files that were not read; None: there are none.
    """
    judged = _with_proof(_with_owner(attempts, processes), _dubious(processes, unread), since)
    return judged.withColumn("verdict", _verdict()).select(
        "id",
        "retries",
        "verdict",
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
    )


def replayable(audited: DataFrame) -> DataFrame:
    """The dead letters that may be replayed: rejected, and never started."""
    return audited.where("verdict = 'REPLAYABLE'").select(
        "id", "retries", "task", "queue", "published", "rejected_at", "reason"
    )


def _with_owner(attempts: DataFrame, processes: DataFrame) -> DataFrame:
    """Attempts with the liveness of the process that began them, and how far its log goes."""
    parents = processes.select(
        "node",
        F.col("boot").alias("worker"),
        F.col("complete").alias("complete_parent"),
        F.col("ended_at").isNotNull().alias("ended_parent"),
        F.col("last_at").alias("last_of_parent"),
    )
    heard = F.col("last_of_parent") >= F.col("ended_at") + REPORTED
    owners = processes.join(parents, ["node", "worker"], "left").select(
        "node",
        "pid",
        "boot",
        "liveness",
        (F.col("ended_parent") | heard).alias("reported"),
        (F.col("complete") & F.coalesce("complete_parent", F.lit(False))).alias("owner_complete"),
    )
    return attempts.join(F.broadcast(owners), ["node", "pid", "boot"], "left")


def _with_proof(attempts: DataFrame, dubious: DataFrame, since: float | None) -> DataFrame:
    """Attempts with `proven`: whether no start of theirs can be missing from the log."""
    suspects = attempts.where("rejections > 0 and starts = 0 and finishes = 0")
    doubts = _doubtful(suspects, dubious).withColumn("doubted", F.lit(True))
    known = F.col("published").isNotNull()
    if since is not None:
        known &= F.col("published") >= since
    return attempts.join(doubts, ["id", "retries"], "left").withColumn(
        "proven", known & F.col("doubted").isNull()
    )


def _dubious(processes: DataFrame, unread: DataFrame | None) -> DataFrame:
    """The processes that leave doubt: only they are compared with messages, and most leave none."""
    read = processes.select(
        F.coalesce("born_at", F.lit(0.0)).alias("born_at"),
        "ended_at",
        F.when(F.col("complete"), F.col("last_at")).otherwise(F.lit(0.0)).alias("last_at"),
        "complete",
    ).where(~F.col("complete") | F.col("ended_at").isNull())
    if unread is None:
        return read
    unknown = unread.join(F.broadcast(processes), ["pid", "boot"], "left_anti")
    return read.unionByName(
        unknown.select(
            F.coalesce("since", F.lit(0.0)).alias("born_at"),
            F.lit(None).cast("double").alias("ended_at"),
            F.lit(0.0).alias("last_at"),
            F.lit(False).alias("complete"),
        )
    )


def _doubtful(suspects: DataFrame, dubious: DataFrame) -> DataFrame:
    """Those in whose time some process may have started them without a record here."""
    lived = (F.col("born_at") <= F.col("rejected_at") + CLOCKS) & (
        F.col("ended_at").isNull() | (F.col("ended_at") >= F.col("published") - CLOCKS)
    )
    covered = F.col("ended_at").isNotNull() | (F.col("last_at") >= F.col("rejected_at") + CLOCKS)
    doubt = lived & ~(F.col("complete") & covered)
    joined = suspects.select("id", "retries", "published", "rejected_at").join(
        F.broadcast(dubious), doubt
    )
    return joined.select("id", "retries").distinct()


def _verdict() -> Column:
    rejected, started = F.col("rejections") > 0, F.col("starts") > 0
    again = F.col("started_at") > F.col("rejected_at")  # it was replayed since
    unfinished = F.col("finishes") == 0
    return (
        F.when(F.col("starts") > 1, "DUPLICATE")
        .when(
            rejected & (started | ~unfinished) & ~F.coalesce(again, F.lit(False)), "DEAD_LETTERED"
        )
        .when(rejected & ~started & F.col("proven"), "REPLAYABLE")
        .when(~started, "UNKNOWN")
        .when(~unfinished, "FINISHED")
        .when(~F.coalesce("owner_complete", F.lit(False)), "UNKNOWN")
        .when((F.col("liveness") == "ended") & F.col("reported"), "LOST")
        .when(F.col("liveness") == "alive", "RUNNING")
        .otherwise("UNKNOWN")
    )
