"""Bronze and silver of planted lines, as if read from the warehouse.

A plan grows with what it was made of, and small ones take longer to plan than to run: what a table
in the warehouse cuts off, a checkpoint does here.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from celery_fair.pipeline.bronze import QUARANTINE, RECORD, parsed, sorted_out
from celery_fair.pipeline.gold.doubts import doubts
from celery_fair.pipeline.numbering import NUMBERS, distinct, numbers, suspects
from celery_fair.pipeline.silver.attempts import attempts
from celery_fair.pipeline.silver.processes import lives, processes_of
from celery_fair.pipeline.silver.queues import backlog
from celery_fair.pipeline.silver.unread import UNREAD, UNREADABLE
from tests.pipeline.planted import Process

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GAPS = "node string, pid long, boot string, first long, last long, since double, until double"

__all__ = [
    "Silver",
    "bronze",
    "bronze_of_lines",
    "doubts_of",
    "events",
    "processes",
    "quarantine",
    "silver_of",
]


def events(lines: DataFrame) -> DataFrame:
    """Parsed lines as events, each id once."""
    found = sorted_out(lines).where("table = 'events'").select(*RECORD, "file", "date")
    known = lines.sparkSession.createDataFrame([], NUMBERS)
    return distinct(found, suspects(numbers(found), known))


def quarantine(lines: DataFrame) -> DataFrame:
    """Parsed lines that are no records."""
    bad = sorted_out(lines).where("table = 'quarantine'")
    return bad.select("file", "text", F.col("wrong").alias("reason"))


def processes(found: DataFrame, bad: DataFrame | None = None) -> DataFrame:
    """One row per process of events.

    Arguments:
        bad: lines that are no records; None: there are none.
    """
    if bad is None:
        bad = found.sparkSession.createDataFrame([], QUARANTINE)
    return processes_of(lives(found), bad)


def bronze(spark: SparkSession, planted: Iterable[Process]) -> DataFrame:
    """The events of processes whose logs are there, each once."""
    return _once(spark, (line for process in planted for line in process.lines))


def bronze_of_lines(spark: SparkSession, lines: Iterable[str]) -> DataFrame:
    """The events of lines that may be there twice."""
    return events(_parsed(spark, lines)).localCheckpoint()


def _once(spark: SparkSession, lines: Iterable[str]) -> DataFrame:
    found = sorted_out(_parsed(spark, lines)).where("table = 'events'")
    return found.select(*RECORD, "file", "date").localCheckpoint()


def _parsed(spark: SparkSession, lines: Iterable[str]) -> DataFrame:
    rows = [(line, "planted") for line in lines]
    return parsed(spark.createDataFrame(rows, "value string, file string"))


def doubts_of(
    lived: DataFrame,
    gaps: DataFrame | None = None,
    unread: DataFrame | None = None,
    unreadable: DataFrame | None = None,
) -> DataFrame:
    """What is in doubt; what is not given is empty."""
    given = ((gaps, GAPS), (unread, UNREAD), (unreadable, UNREADABLE))
    none = lived.sparkSession.createDataFrame
    tables = (none([], schema) if table is None else table for table, schema in given)
    return doubts(lived, *tables)


class Silver(NamedTuple):
    """The tables that are made of events."""

    attempts: DataFrame
    backlog: DataFrame
    processes: DataFrame

    @classmethod
    def of(cls, found: DataFrame) -> Silver:
        return cls(*(made(found).localCheckpoint() for made in (attempts, backlog, processes)))


def silver_of(spark: SparkSession, log: Path) -> Silver:
    """What a folder of logs comes to."""
    lines = (line for path in log.rglob("*.jsonl") for line in path.read_text().splitlines())
    return Silver.of(_once(spark, lines))
