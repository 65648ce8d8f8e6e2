"""Any CSV file with a header, by saying which of its columns is what."""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from celery_fair.pipeline.errors import PipelineError

__all__ = ["FIELDS", "csv_trace", "parse_columns"]

FIELDS = ("id", "queue", "task", "cost_key", "published", "runtime")
_NEEDED = ("published", "runtime")


def parse_columns(text: str) -> dict[str, str]:
    """Return field to column, of "published=submitted,runtime=seconds,queue=team".

    Raises:
        PipelineError: a word is not of this form, a field unknown, or one that is needed missing.
    """
    columns = {}
    for word in filter(None, (word.strip() for word in text.split(","))):
        name, equals, column = word.partition("=")
        if not (equals and column and name in FIELDS):
            raise PipelineError(
                f"columns {text!r}: {word!r} is not FIELD=COLUMN with one of {', '.join(FIELDS)}"
            )
        columns[name] = column
    if missing := [name for name in _NEEDED if name not in columns]:
        raise PipelineError(f"columns {text!r}: say which column is {' and which '.join(missing)}")
    return columns


def csv_trace(spark: SparkSession, path: str, columns: dict[str, str]) -> DataFrame:
    """Rows as messages; those without a time or a run time are left out.

    Raises:
        PipelineError: the file has no such column.
    """
    rows = spark.read.option("header", True).csv(path)
    for column in columns.values():
        if column not in rows.columns:
            raise PipelineError(
                f"{path} has no column {column!r}; it has {', '.join(rows.columns)}"
            )
    made = {name: F.col(f"`{column}`") for name, column in columns.items()}
    return rows.select(
        made.get("id", F.uuid()).alias("id"),
        F.coalesce(made.get("queue", F.lit("celery")), F.lit("celery")).alias("queue"),
        F.coalesce(made.get("task", F.lit("task")), F.lit("task")).alias("task"),
        made.get("cost_key", F.lit(None).cast("string")).alias("cost_key"),
        _time(made["published"]).alias("published"),
        made["runtime"].try_cast("double").alias("runtime"),
    ).where("published is not null and runtime >= 0")


def _time(column: Column) -> Column:
    """Seconds, or anything that reads as a time."""
    at = F.unix_micros(F.try_to_timestamp(column)) / 1e6
    return F.coalesce(column.try_cast("double"), at)
