"""The Standard Workload Format, version 2.2 (Feitelson's Parallel Workloads Archive).

One job a line, 18 fields between blanks, -1 for what is unknown; lines that begin with a semicolon
are comments, one of which may say when second 0 was (``; UnixStartTime: 820454400``).
"""

from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from celery_fair.pipeline.errors import PipelineError
from celery_fair.pipeline.traces.left_out import Tell, first_of, is_finite, messages, unread

__all__ = ["QUEUE_FIELDS", "swf_trace"]

# Counted from 1, as in the format's definition.
_FIELDS = 18
_JOB, _SUBMIT, _RUN, _REQUESTED, _EXECUTABLE = 1, 2, 4, 9, 14
QUEUE_FIELDS: Final = {"user": 12, "group": 13, "queue": 15, "partition": 16}


def swf_trace(
    spark: SparkSession, path: str, queue: str = "queue", tell: Tell | None = None
) -> DataFrame:
    """Jobs that ran, as messages.

    Arguments:
        queue: what becomes the queue: one of `QUEUE_FIELDS`.
        tell: see `celery_fair.pipeline.traces.left_out.messages`.

    Raises:
        PipelineError: `queue` is none of them, or no line can be read.
    """
    if queue not in QUEUE_FIELDS:
        raise PipelineError(f"a queue is made of {', '.join(QUEUE_FIELDS)}, not of {queue!r}")
    lines = spark.read.text(path)
    line = F.trim("value")
    jobs = lines.where((line != "") & ~line.startswith(";")).select(
        F.split(line, r"\s+").alias("fields"), line.alias("line")
    )
    start = lines.select(
        F.max(F.regexp_extract("value", r"^;\s*UnixStartTime:\s*(\d+)", 1)).alias("start")
    )
    first = F.coalesce(F.expr("try_cast(start as double)"), F.lit(0.0))
    published, runtime = first + _number(_SUBMIT), _number(_RUN)
    whole = F.size("fields") == _FIELDS
    marked = jobs.crossJoin(F.broadcast(start)).select(
        _field(_JOB).alias("id"),
        F.concat(F.lit(f"{queue}-"), _field(QUEUE_FIELDS[queue])).alias("queue"),
        F.concat(F.lit("executable-"), _field(_EXECUTABLE)).alias("task"),
        F.concat(F.lit("requested-"), _field(_REQUESTED)).alias("cost_key"),
        published.alias("published"),
        runtime.alias("runtime"),
        *first_of(
            unread("line", whole, F.col("line"), "the file", f"line of {_FIELDS} fields"),
            unread("published", is_finite(published), _field(_SUBMIT), f"field {_SUBMIT}", "time"),
            unread(
                *("runtime", (runtime >= 0) & is_finite(runtime), _field(_RUN)),
                *(f"field {_RUN}", "run time"),
            ),
        ),
    )
    return messages(marked, tell)


def _field(number: int) -> Column:
    return F.get("fields", F.lit(number - 1))  # null where a line has fewer


def _number(number: int) -> Column:
    return _field(number).try_cast("double")
