"""Bronze and silver of planted lines, as if read from the warehouse.

A plan grows with what it was made of, and small ones take longer to plan than to run: what a table
in the warehouse cuts off, a checkpoint does here.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from celery_fair.pipeline.bronze import EVENTS, events, parsed, sorted_out
from celery_fair.pipeline.silver.attempts import attempts
from celery_fair.pipeline.silver.processes import processes
from celery_fair.pipeline.silver.queues import backlog
from tests.pipeline.planted import Process

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Silver", "bronze", "bronze_of_lines", "silver_of"]


def bronze(spark: SparkSession, planted: Iterable[Process]) -> DataFrame:
    """The events of processes whose logs are there, each once."""
    return _once(spark, (line for process in planted for line in process.lines))


def bronze_of_lines(spark: SparkSession, lines: Iterable[str]) -> DataFrame:
    """The events of lines that may be there twice."""
    return events(_parsed(spark, lines)).localCheckpoint()


def _once(spark: SparkSession, lines: Iterable[str]) -> DataFrame:
    found = sorted_out(_parsed(spark, lines)).where("table = 'events'")
    return found.select(*EVENTS.names).localCheckpoint()


def _parsed(spark: SparkSession, lines: Iterable[str]) -> DataFrame:
    rows = [(line, "planted") for line in lines]
    return parsed(spark.createDataFrame(rows, "value string, file string"))


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
