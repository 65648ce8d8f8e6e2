"""Gold tables as one would ask Spark for them in a sentence of SQL, from the same silver files.

The sentences are those of the tests' oracle, in Spark's dialect. The oracle's for the audit asks
each doubt about each attempt, which takes Spark more than ten minutes for a million events; here
doubts are summed up by queue. Which doubts there are it finds as the command does, and by the
command's function: that is part of the question, and in SQL it would be as long.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["QUESTIONS", "answer"]

_AUDIT = """
WITH named AS (SELECT *, explode_outer(queues) AS queue FROM doubts),
about AS (
    SELECT queue, max(CASE WHEN NOT open THEN until END) AS doubted_until,
           min(CASE WHEN open THEN since END) AS open_since
    FROM named GROUP BY queue
),
everywhere AS (
    SELECT max(doubted_until) AS doubted_until, min(open_since) AS open_since
    FROM about WHERE queue IS NULL
),
lasting AS (
    SELECT node, pid, boot, max(until) AS until FROM doubts WHERE NOT open GROUP BY ALL
),
owners AS (
    SELECT p.node, p.pid, p.boot, p.liveness, p.ended_at,
           coalesce(w.ended_at IS NOT NULL OR w.last_at >= p.ended_at + 30, false) AS reported,
           greatest(o.until, v.until) AS gap_until
    FROM processes p
    LEFT JOIN processes w ON w.node = p.node AND w.boot = p.worker
    LEFT JOIN lasting o ON o.node = p.node AND o.pid = p.pid AND o.boot = p.boot
    LEFT JOIN lasting v ON v.node = w.node AND v.pid = w.pid AND v.boot = w.boot
),
unproven AS (
    SELECT a.id, a.retries FROM attempts_ a LEFT SEMI JOIN named d
    ON (d.queue IS NULL OR d.queue = a.queue)
        AND (d.since < a.rejected_at + 10 AND d.until >= a.published_first - 10
             OR a.published_first - 10 > a.rejected_at + 10)
    WHERE a.rejections > 0 AND a.starts = 0
),
judged AS (
    SELECT a.*, o.liveness, o.reported, coalesce(o.gap_until > a.started_at, false) AS gap,
           a.published_first IS NOT NULL AND a.admissions = 0 AND u.id IS NULL AS unstarted,
           NOT coalesce(greatest(q.doubted_until, e.doubted_until)
               >= coalesce(a.published_first, DOUBLE('-Infinity')) - 10, false) AS once,
           NOT coalesce(least(q.open_since, e.open_since) < o.ended_at + 30, false) AS heard
    FROM attempts_ a
    LEFT JOIN owners o ON o.node = a.node AND o.pid = a.pid AND o.boot = a.boot
    LEFT JOIN about q ON q.queue = a.queue
    LEFT JOIN unproven u ON u.id = a.id AND u.retries = a.retries
    CROSS JOIN everywhere e
)
SELECT id, CASE
    WHEN starts > 1 AND last_started_at > started_at THEN 'DUPLICATE'
    WHEN rejections > 0 AND starts + finishes > 0
        AND NOT coalesce(started_at > rejected_at + 10, false) THEN 'DEAD_LETTERED'
    WHEN starts > 1 THEN 'UNKNOWN'
    WHEN rejections > 0 AND starts = 0 THEN if(unstarted, 'REPLAYABLE', 'UNKNOWN')
    WHEN starts = 0 THEN 'UNKNOWN'
    WHEN finishes > 0 THEN if(once, 'FINISHED', 'UNKNOWN')
    WHEN liveness IS NULL OR gap OR liveness = 'silent' THEN 'UNKNOWN'
    WHEN liveness = 'alive' THEN 'RUNNING'
    WHEN reported AND once AND heard THEN 'LOST'
    ELSE 'UNKNOWN' END AS verdict
FROM judged
"""

_LAST = """
SELECT a.* FROM attempts a LEFT ANTI JOIN replaced r ON r.id = a.id AND r.stale = a.run
"""
"""What is known of attempts by now: those that went on in a later run are there again."""

_WAITS = """
SELECT queue, started, timed, skewed, q[0] AS p50, q[1] AS p95, q[2] AS p99
FROM (SELECT queue, count(*) AS started, count(published) AS timed,
             count_if(started_at < published) AS skewed,
             percentile_approx(started_at - published, array(0.5, 0.95, 0.99), 10000) AS q
      FROM attempts_ WHERE starts > 0 GROUP BY queue)
"""

_TELL_OF_DOUBTS = ("gaps", "unread", "unreadable")

_OF_ORACLE = ("fairness", "costs", "capacity")

QUESTIONS = ("audit", "waits", *_OF_ORACLE)
"""Tables there is a sentence for."""


def answer(session: "SparkSession", table: str, warehouse: Path, out: Path) -> None:
    """Write the rows of a table into a folder."""
    from benchmarks.pipeline.jobs import SILVER, folders
    from celery_fair.pipeline.gold.doubts import doubts

    def read(name: str) -> "DataFrame":
        found = folders(warehouse, name)
        return session.read.option("basePath", str(found[0].parent)).parquet(*map(str, found))

    for name in (*SILVER, "replaced"):
        read(name).createOrReplaceTempView(name)
    if table == "audit":
        told = map(read, _TELL_OF_DOUBTS)
        place = str(out.with_name("doubts"))
        doubts(read("processes"), *told).write.parquet(place)
        session.read.parquet(place).createOrReplaceTempView("doubts")
    session.sql(_LAST).createOrReplaceTempView("attempts_")
    session.sql(_question(table)).write.parquet(str(out))


def _question(table: str) -> str:
    from benchmarks.pipeline.jobs import question

    if table not in _OF_ORACLE:
        return {"audit": _AUDIT, "waits": _WAITS}[table]
    asked = question(table).replace("FROM attempts ", "FROM attempts_ ")
    asked = asked.replace("row_number() OVER ()", "monotonically_increasing_id()")
    unnested, least, most = "unnest(range(CAST(floor(", ") AS BIGINT),", ") AS BIGINT)))"
    buckets = asked.replace(unnested, "explode(sequence(CAST(floor(")
    return buckets.replace(most, ") AS BIGINT) - 1))") if least in asked else buckets
