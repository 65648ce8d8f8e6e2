"""Others' logs as messages for replays: any table of jobs, by saying what its columns are.

It is CSV with a header, JSON Lines or Parquet. A time is a number, in seconds or another unit since
any moment, or a timestamp, or a text that reads as one. A run time is a number, or an expression of
Spark's SQL in the file's columns: ``unix_seconds(finished) - unix_seconds(started)``,
``tokens_read * 0.2 + tokens_written * 30``. Of each row that cannot be read it is said why: which
field, and with which value.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType, StringType

from celery_fair.pipeline.errors import PipelineError, RefusedError

_Tell = Callable[[str], None]
_SHOWN = 60


def _messages(
    rows: DataFrame, columns: Mapping[str, Column], tell: _Tell, *reasons: Column
) -> DataFrame:
    """Return the rows of which messages can be made.

    Counting the others keeps them for the replay, so that the file is read once.

    Arguments:
        columns: of messages, of each row.
        tell: is told how many rows are left out, and why.
        reasons: made by `_unread`; a row has the first that it has.

    Raises:
        PipelineError: there are rows, and none of them can be read.
    """
    nothing = {"key": F.lit(None).cast("string"), "handover": F.lit(0.0), "transit": F.lit(0.0)}
    named = (each.alias(name) for name, each in {**nothing, **columns}.items())
    marked = rows.select(*named, F.coalesce(*reasons).alias("reason")).cache()
    counted = marked.groupBy("reason.field").agg(F.count(F.lit(1)), F.min("reason.why")).collect()
    every = sum(count for _, count, _ in counted)
    left_out = sorted(f"{n:,} of {every:,} rows left out: {why}" for _, n, why in counted if why)
    if every and len(left_out) == len(counted):
        raise PipelineError(
            f"nothing of the trace can be read: {'; '.join(left_out)}; say what SOURCE is, and what"
            " its columns are, or mend it"
        )
    for line in left_out:
        tell(line)
    return marked.where("reason is null").drop("reason")


def _unread_times(columns: Mapping[str, Column], **raw: tuple[Column, str]) -> list[Column]:
    """Return why `published` and `runtime` cannot be read.

    Arguments:
        raw: what is there, and in which column, or whatever it is called.
    """
    endless = F.lit(float("inf"))  # NaN is above that
    published, runtime = F.abs(columns["published"]), columns["runtime"]
    good = {"published": published < endless, "runtime": (runtime >= 0) & (runtime < endless)}
    what = {"published": "time", "runtime": "run time"}
    return [_unread(name, good[name], *there, what[name]) for name, there in raw.items()]


def _unread(field: str, good: Column, value: Column, where: str, what: str) -> Column:
    """Return why a field cannot be read, or null if it can.

    Arguments:
        good: whether it can; null counts as no.
        value: what is there.
        where: the column, or whatever it is called.
        what: what it should have been, such as "number of tokens".
    """
    text = value.cast("string")
    shown = F.concat(F.lit("'"), F.left(text, F.lit(_SHOWN)), F.lit(f"' in {where} is no {what}"))
    why = F.coalesce(shown, F.lit(f"{where} is empty"))
    reason = F.struct(F.lit(field).alias("field"), why.alias("why"))
    return F.when(~F.coalesce(good, F.lit(False)), reason)


_FIELDS: Final = ("id", "queue", "task", "cost_key", "key", "published", "runtime")
_UNITS: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "m": 60.0, "h": 3600.0}
_TIMED: Final = ("published", "runtime")
_OF_MANY: Final = ("MISSING_GROUP_BY", "MISSING_AGGREGATION", "MISSING_GROUP_BY_AGGREGATE")
_SENTENCE: Final = re.compile(r"\[[\w.]+\] (.+?)(?:\. |\.? SQLSTATE|\.?$)")

_NO_RECORD: Final = "_corrupt_record"

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
        RefusedError: a word is not of this form, a field or unit unknown, or one that is needed
            missing.
    """
    names = _pairs("columns", text, "FIELD=COLUMN", _FIELDS)
    known = _pairs("units", units, "FIELD=UNIT", _TIMED)
    for unit in known.values():
        if unit not in _UNITS:
            raise RefusedError(f"units {units!r}: {unit!r} is none of {', '.join(_UNITS)}")
    if runtime is not None and "runtime" in names:
        raise RefusedError(
            f"the run time is column {names['runtime']!r}, and it is {runtime!r}: leave one out"
        )
    given = {*names} if runtime is None else {*names, "runtime"}
    if missing := [name for name in _TIMED if name not in given]:
        raise RefusedError(f"columns {text!r}: say which column is {' and which '.join(missing)}")
    return Columns(names, known, runtime)


def _pairs(what: str, text: str, form: str, fields: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for word in filter(None, (word.strip() for word in text.split(","))):
        name, equals, value = word.partition("=")
        if not (equals and value and name in fields):
            raise RefusedError(
                f"{what} {text!r}: {word!r} is not {form} with one of {', '.join(fields)}"
            )
        found[name] = value
    return found


def table_trace(
    spark: SparkSession, path: str, kind: str, columns: Columns, tell: _Tell = lambda _: None
) -> DataFrame:
    """Rows as messages; those without a time or a run time are left out.

    Arguments:
        kind: one of `READERS`.
        tell: is told how many rows are left out, and why.

    Raises:
        PipelineError: the file has no such column, the expression cannot be one or fails, or no
            row can be read.
    """
    try:
        rows = READERS[kind](spark, path)
    except AnalysisException as exc:
        if exc.getCondition() != "PARQUET_TYPE_ILLEGAL":
            raise
        raise RefusedError(
            f"{_reason(exc)}: Spark reads times in nanoseconds, as pandas writes them, as numbers:"
            " --conf spark.sql.legacy.parquet.nanosAsLong=true --units published=ns"
        ) from exc
    known = [name for name in rows.columns if name != _NO_RECORD]
    for column in columns.names.values():
        if column not in known:
            raise RefusedError(f"the trace has no column {column!r}; {_it_has(known)}")
    names = columns.names
    given = {name: _column(column) for name, column in names.items()}
    scale = {name: _UNITS[columns.units.get(name, "s")] for name in _TIMED}
    took = _runtime(rows, columns)
    made = {
        "id": given.get("id", F.uuid()).cast("string"),
        "queue": _text(given.get("queue"), "celery"),
        "task": _text(given.get("task"), "task"),
        "cost_key": _text(given.get("cost_key")),
        "key": _text(given.get("key")),
        "published": _time(rows, names["published"], scale["published"]),
        "runtime": _number(took) * scale["runtime"],
    }
    times = _unread_times(
        made,
        published=(given["published"], names["published"]),
        runtime=(took, columns.runtime or names["runtime"]),
    )
    try:
        return _messages(rows, made, tell, *_no_records(rows), *times)
    except PySparkException as exc:
        if columns.runtime is None:
            raise
        raise PipelineError(
            f"the run time {columns.runtime!r} fails: {_reason(exc)}; write it so that it is null"
            " where it cannot be reckoned, as by try_divide: such rows are left out"
        ) from exc


def _runtime(rows: DataFrame, columns: Columns) -> Column:
    if columns.runtime is None:
        return _column(columns.names["runtime"])
    try:
        made = F.expr(columns.runtime)
        rows.select("*", _number(made))
    except AnalysisException as exc:
        if exc.getCondition() in _OF_MANY:
            raise RefusedError(
                f"the run time {columns.runtime!r} is of all rows together: write one of each row"
            ) from exc
        raise RefusedError(
            f"the run time {columns.runtime!r} is no expression in the columns of the trace"
            f" ({', '.join(rows.columns)}): {_reason(exc)}"
        ) from exc
    return made


def _reason(exc: PySparkException) -> str:
    """What an error of Spark's says, without its advice about Spark."""
    line = next((line for line in str(exc).splitlines() if line.strip()), "")
    found = _SENTENCE.match(line)
    return found[1][:1].lower() + found[1][1:] if found else line


def _it_has(columns: list[str]) -> str:
    """What there is instead of a column that is not there."""
    if not columns:
        return "it has none"
    one = columns[0] if len(columns) == 1 else ""
    odd = next((sign for sign in ";\t|" if sign in one), None)
    hint = "" if odd is None else f": its separator seems to be {odd!r}, and has to be a comma"
    return f"it has {', '.join(columns)}{hint}"


def _no_records(rows: DataFrame) -> list[Column]:
    """Why a line is none: Spark has a column of them if there are any."""
    if _NO_RECORD not in rows.columns:
        return []
    bad = F.col(_NO_RECORD)
    return [_unread("line", bad.isNull(), bad, "a line", "JSON object")]


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
