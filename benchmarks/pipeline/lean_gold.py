"""Gold tables as one would ask Spark for them in a sentence of SQL, from the same silver files.

The sentences are those of the tests' oracle, in Spark's dialect; but that of the audit trusts the
log: it knows no doubts, and what has started and not ended is lost where its process has ended.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["QUESTIONS", "answer"]

_AUDIT = """
SELECT a.id, CASE
    WHEN starts > 1 THEN 'DUPLICATE'
    WHEN rejections > 0 AND starts > 0 THEN 'DEAD_LETTERED'
    WHEN rejections > 0 THEN 'REPLAYABLE'
    WHEN starts = 0 THEN 'UNKNOWN'
    WHEN finishes > 0 THEN 'FINISHED'
    WHEN p.ended_at IS NULL THEN 'RUNNING'
    ELSE 'LOST' END AS verdict
FROM attempts_ a LEFT JOIN processes p ON p.node = a.node AND p.pid = a.pid AND p.boot = a.boot
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

_OF_ORACLE = ("fairness", "costs", "capacity")

QUESTIONS = ("audit", "waits", *_OF_ORACLE)
"""Tables there is a sentence for."""


def answer(session: "SparkSession", table: str, warehouse: Path, out: Path) -> None:
    """Write the rows of a table into a folder."""
    from benchmarks.pipeline.jobs import SILVER, folders

    for name in (*SILVER, "replaced"):
        found = folders(warehouse, name)
        rows = session.read.option("basePath", str(found[0].parent)).parquet(*map(str, found))
        rows.createOrReplaceTempView(name)
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
