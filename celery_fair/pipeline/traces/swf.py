"""The Standard Workload Format, version 2.2 (Feitelson's Parallel Workloads Archive).

One job a line, 18 fields between blanks, -1 for what is unknown; lines that begin with a semicolon
are comments, one of which may say when second 0 was (``; UnixStartTime: 820454400``).
"""

from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from celery_fair.pipeline.errors import PipelineError

__all__ = ["QUEUE_FIELDS", "swf_trace"]

# Counted from 1, as in the format's definition.
_JOB, _SUBMIT, _RUN, _REQUESTED, _EXECUTABLE = 1, 2, 4, 9, 14
QUEUE_FIELDS: Final = {"user": 12, "group": 13, "queue": 15, "partition": 16}


def swf_trace(spark: SparkSession, path: str, queue: str = "queue") -> DataFrame:
    """Jobs that ran, as messages.

    Arguments:
        queue: what becomes the queue: one of `QUEUE_FIELDS`.

    Raises:
        PipelineError: `queue` is none of them.
    """
    if queue not in QUEUE_FIELDS:
        raise PipelineError(f"a queue is made of {', '.join(QUEUE_FIELDS)}, not of {queue!r}")
    lines = spark.read.text(path)
    jobs = lines.where(~F.trim("value").startswith(";")).select(
        F.split(F.trim("value"), r"\s+").alias("fields")
    )
    start = lines.select(
        F.max(F.regexp_extract("value", r"^;\s*UnixStartTime:\s*(\d+)", 1)).alias("start")
    )
    ran = jobs.where(F.size("fields") == 18).crossJoin(F.broadcast(start))
    first = F.coalesce(F.expr("try_cast(start as double)"), F.lit(0.0))
    return ran.select(
        _field(_JOB).alias("id"),
        F.concat(F.lit(f"{queue}-"), _field(QUEUE_FIELDS[queue])).alias("queue"),
        F.concat(F.lit("executable-"), _field(_EXECUTABLE)).alias("task"),
        F.concat(F.lit("requested-"), _field(_REQUESTED)).alias("cost_key"),
        (first + _number(_SUBMIT)).alias("published"),
        _number(_RUN).alias("runtime"),
    ).where("published is not null and runtime >= 0")


def _field(number: int) -> Column:
    return F.col("fields")[number - 1]


def _number(number: int) -> Column:
    return F.expr(f"try_cast(fields[{number - 1}] as double)")
