"""Bronze: the log's lines as events, each once; what is not a record goes to the quarantine.

A line is a record if it is one complete JSON object with values of the schema's types that names
its process, its number there and its time, and is of this version. A killed writer leaves a torn
last line, a failing disk leaves garbage: such lines are kept, with the reason and the file they
came from. Unknown fields are left out. An unknown kind is kept, or else its number would be
missing. From here on times and durations are seconds.

The event log's schema is written down in `celery_fair.eventlog.records`; here it is Spark's.
"""

from functools import reduce
from operator import and_, or_
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from celery_fair.eventlog.records import FIELDS, KINDS, VERSION

RECORD: Final = {
    name: kind for fields in (FIELDS, *KINDS.values()) for name, (kind, _) in fields.items()
}
"""Every field of every kind, once; a record has null in those that are not its kind's."""

MICROSECONDS: Final = [name for name, kind in RECORD.items() if kind == "microseconds"]
"""The fields that are seconds in every table."""

SCHEMA: Final = ", ".join(
    # Doubles are exact up to the year 2255.
    f"{name} {'double' if kind == 'microseconds' else kind}"
    for name, kind in RECORD.items()
)


def in_seconds(record: Column) -> list[Column]:
    """Return a record's fields, whose times and durations are in microseconds."""
    return [
        (record[name] / 1e6 if name in MICROSECONDS else record[name]).alias(name)
        for name in RECORD
    ]


# Lines -------------------------------------------------------------------------


EVENTS = f"{SCHEMA}, file string, date date"
QUARANTINE = "file string, text string, reason string"

TEXT_KEPT = 2000
_LAST_TIME = 253402300800.0  # the year 10000: what is beyond has no date
_COUNTED = ("seq", "last", "dropped", "concurrency")
_MOST = 1 << 48
_WRONG = "_wrong"
_IDENTITY = ("v", "kind", "node", "pid", "boot", "at")


def parsed(lines: DataFrame) -> DataFrame:
    """Lines (`value`, `file`) as `file`, `text`, the fields, and `wrong` if they are no record."""
    # JSON has no NaN, and a sum with one is none.
    options = {
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": _WRONG,
        "allowNonNumericNumbers": "false",
    }
    # Who copies files through Windows ends lines its way, and may begin a file with a mark.
    text = F.btrim(F.make_valid_utf8("value"), F.lit("\r\ufeff")).alias("text")
    read = lines.select("file", text)
    read = read.withColumn("record", F.from_json("text", f"{SCHEMA}, {_WRONG} string", options))
    return read.select("file", "text", _wrong().alias("wrong"), *in_seconds(F.col("record")))


def _wrong() -> Column:
    record = F.col("record")
    complete = reduce(and_, (record[name].isNotNull() for name in _IDENTITY))
    dead = (record["kind"] == "process") & (record["state"] == "dead")
    at = record["at"] / 1e6
    other = f"of version %d, and this celery-fair reads {VERSION}"
    return (
        F.when(F.trim("text") == "", "empty")
        .when(~F.rtrim("text").startswith("{") | ~F.rtrim("text").endswith("}"), "torn or no JSON")
        # Spark's parser takes the first object and is silent about the rest.
        .when(_has_two(F.col("text")), "two records in one line")
        .when(record["v"] != VERSION, F.format_string(other, record["v"]))
        .when(record[_WRONG].isNotNull(), "torn, or a value of another type")
        .when(~complete, "does not name its version, process and time")
        # Who declares another dead may not know how many records that one wrote.
        .when(record["seq"].isNull() & ~dead, "does not name its number")
        .when(reduce(or_, map(_impossible, _COUNTED)), "impossible number")
        .when(~at.between(0.0, _LAST_TIME) | F.isnan(at), "impossible time")
    )


def _impossible(name: str) -> Column:
    """Whether a number is none that anybody counts to: with it sums would overflow, or hide a gap.

    A disk that fails changes digits.
    """
    number = F.col("record")[name]
    return F.coalesce((number < 0) | (number > _MOST), F.lit(False))


def _has_two(text: Column) -> Column:
    """Whether one object follows another. What is in a JSON text, such as a cost key, is none."""
    between = r"\}\s*\{"
    plain = F.regexp_replace(text, r'"(?:[^"\\]|\\.)*+"', '""')
    return text.rlike(between) & plain.rlike(between)


def sorted_out(lines: DataFrame) -> DataFrame:
    """Parsed lines with all columns of both tables, and the name of theirs in `table`."""
    date = F.to_date(F.timestamp_seconds("at")).alias("date")
    is_record = F.col("wrong").isNull()
    text = F.when(~is_record, F.substring("text", 1, TEXT_KEPT)).alias("text")
    table = F.when(is_record, "events").otherwise("quarantine").alias("table")
    return lines.select(*RECORD, "file", date, text, "wrong", table)
