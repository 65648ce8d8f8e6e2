"""Any table of jobs, by saying what its columns are: CSV with a header, JSON Lines, Parquet.

A time is a number, in seconds or another unit since any moment, or a timestamp, or a text that
reads as one. A run time is a number, or an expression of Spark's SQL in the file's columns:
``unix_seconds(finished) - unix_seconds(started)``, ``tokens_read * 0.2 + tokens_written * 30``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType, StringType

from celery_fair.pipeline.errors import PipelineError

__all__ = ["FIELDS", "READERS", "UNITS", "Columns", "parse_columns", "table_trace"]

FIELDS: Final = ("id", "queue", "task", "cost_key", "key", "published", "runtime")
UNITS: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "m": 60.0, "h": 3600.0}
_TIMED: Final = ("published", "runtime")

READERS: Final[dict[str, Callable[[SparkSession, str], DataFrame]]] = {
    "csv": lambda spark, path: spark.read.csv(path, header=True, inferSchema=True),
    "jsonl": lambda spark, path: spark.read.json(path),
    "parquet": lambda spark, path: spark.read.parquet(path),
}


@dataclass(frozen=True)
class Columns:
    """What a table's columns are.

    Attributes:
        names: field to column.
        units: of `published` and `runtime`, those that are not seconds: field to unit.
        runtime: an expression, instead of a column, or None.
    """

    names: dict[str, str]
    units: dict[str, str] = field(default_factory=dict)
    runtime: str | None = None


def parse_columns(text: str, units: str = "", runtime: str | None = None) -> Columns:
    """Return what is meant by "published=submitted,queue=team" and "published=ms,runtime=us".

    Raises:
        PipelineError: a word is not of this form, a field or unit unknown, or one that is needed
            missing.
    """
    names = _pairs("columns", text, "FIELD=COLUMN", FIELDS)
    known = _pairs("units", units, "FIELD=UNIT", _TIMED)
    for unit in known.values():
        if unit not in UNITS:
            raise PipelineError(f"units {units!r}: {unit!r} is none of {', '.join(UNITS)}")
    if runtime is not None and "runtime" in names:
        raise PipelineError(
            f"the run time is column {names['runtime']!r}, and it is {runtime!r}: leave one out"
        )
    given = {*names} if runtime is None else {*names, "runtime"}
    if missing := [name for name in _TIMED if name not in given]:
        raise PipelineError(f"columns {text!r}: say which column is {' and which '.join(missing)}")
    return Columns(names, known, runtime)


def _pairs(what: str, text: str, form: str, fields: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for word in filter(None, (word.strip() for word in text.split(","))):
        name, equals, value = word.partition("=")
        if not (equals and value and name in fields):
            raise PipelineError(
                f"{what} {text!r}: {word!r} is not {form} with one of {', '.join(fields)}"
            )
        found[name] = value
    return found


def table_trace(spark: SparkSession, path: str, kind: str, columns: Columns) -> DataFrame:
    """Rows as messages; those without a time or a run time are left out.

    Arguments:
        kind: one of `READERS`.

    Raises:
        PipelineError: the file has no such column, or the expression cannot be one.
    """
    rows = READERS[kind](spark, path)
    for column in columns.names.values():
        if column not in rows.columns:
            raise PipelineError(
                f"{path} has no column {column!r}; it has {', '.join(rows.columns)}"
            )
    made = {name: _column(column) for name, column in columns.names.items()}
    scale = {name: UNITS[columns.units.get(name, "s")] for name in _TIMED}
    runtime = _number(_runtime(rows, path, columns)) * scale["runtime"]
    return rows.select(
        made.get("id", F.uuid()).cast("string").alias("id"),
        _text(made.get("queue"), "celery").alias("queue"),
        _text(made.get("task"), "task").alias("task"),
        _text(made.get("cost_key")).alias("cost_key"),
        _text(made.get("key")).alias("key"),
        _time(rows, columns.names["published"], scale["published"]).alias("published"),
        runtime.alias("runtime"),
    ).where("published is not null and runtime >= 0 and runtime < double('infinity')")


def _runtime(rows: DataFrame, path: str, columns: Columns) -> Column:
    if columns.runtime is None:
        return _column(columns.names["runtime"])
    try:
        made = F.expr(columns.runtime)
        rows.select(made)
    except (AnalysisException, ParseException) as exc:
        why = str(exc).splitlines()[0]
        raise PipelineError(
            f"the run time {columns.runtime!r} is no expression in the columns of {path}"
            f" ({', '.join(rows.columns)}): {why}"
        ) from exc
    return made


def _column(name: str) -> Column:
    """One of exactly that name, whatever is in it: a dot, a backtick."""
    return F.col(f"`{name.replace('`', '``')}`")


def _text(column: Column | None, absent: str | None = None) -> Column:
    otherwise = F.lit(absent).cast("string")
    return otherwise if column is None else F.coalesce(column.cast("string"), otherwise)


def _number(column: Column) -> Column:
    return column.cast("string").try_cast("double")


def _time(rows: DataFrame, name: str, scale: float) -> Column:
    column, kind = _column(name), rows.schema[name].dataType
    if isinstance(kind, NumericType):
        return column.cast("double") * scale
    at = F.unix_micros(F.try_to_timestamp(column.cast("string"))) / 1e6
    if isinstance(kind, StringType):
        return F.coalesce(column.try_cast("double") * scale, at)
    return at
