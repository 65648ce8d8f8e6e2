"""Bronze: the log's lines as events, each once; what is not a record goes to the quarantine.

A line is a record if it is one complete JSON object with values of the schema's types that names
its process, its number there and its time. A killed writer leaves a torn last line, a failing disk
leaves garbage: such lines are kept, with the reason and the file they came from. Unknown fields are
left out. An unknown kind, from a later version, is kept, or else its number would be missing. From
here on times and durations are seconds, whichever version wrote them.

The same event may be read twice, from a copy of a file or from a file read while it was open. It is
recognised by its id, `node:pid:boot:seq`. An id has one time, and so one date: to find the events
that are already there, only the dates in the new files need be searched.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from celery_fair.pipeline.schema import MICROSECONDS, RECORD

__all__ = ["events", "identified", "new_events", "parsed", "quarantine"]

TEXT_KEPT = 2000
_LAST_TIME = 253402300800.0  # the year 10000: what is beyond has no date
_WRONG = "_wrong"
_IDENTITY = ("kind", "node", "pid", "boot", "at")


def parsed(lines: DataFrame) -> DataFrame:
    """Lines (`value`, `file`) with `record`, and `reason` where they are no record."""
    text = F.make_valid_utf8("value")
    schema = StructType([*RECORD.fields, StructField(_WRONG, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _WRONG}
    return (
        lines.withColumn("text", text)
        .withColumn("record", F.from_json("text", schema, options))
        .withColumn("record", _in_seconds(F.col("record")))
        .withColumn("reason", _reason())
        .select("file", "text", "record", "reason")
    )


def _in_seconds(record: Column) -> Column:
    """Times and durations are written in microseconds, and were in seconds before version 2."""
    whole = record["v"] >= 2
    fields = {name: record[name] for name in (*RECORD.names, _WRONG)}
    for name in MICROSECONDS:
        fields[name] = F.when(whole, record[name] / 1e6).otherwise(record[name])
    return F.struct(*[value.alias(name) for name, value in fields.items()])


def _reason() -> Column:
    record = F.col("record")
    named = [record[name].isNotNull() for name in _IDENTITY]
    dead = (record["kind"] == "process") & (record["state"] == "dead")
    complete = F.lit(True)
    for each in named:
        complete &= each
    return (
        F.when(F.trim("text") == "", "empty")
        .when(~F.rtrim("text").startswith("{") | ~F.rtrim("text").endswith("}"), "torn or no JSON")
        # Spark's parser takes the first object and is silent about the rest.
        .when(_has_two(F.col("text")), "two records in one line")
        .when(record[_WRONG].isNotNull(), "torn, or a value of another type")
        .when(~complete, "does not name its process and time")
        # Who declares another dead may not know how many records that one wrote.
        .when(record["seq"].isNull() & ~dead, "does not name its number")
        .when(~record["at"].between(0.0, _LAST_TIME) | F.isnan(record["at"]), "impossible time")
    )


def _has_two(text: Column) -> Column:
    """Whether one object follows another. What is in a JSON text, such as a cost key, is none."""
    between = r"\}\s*\{"
    plain = F.regexp_replace(text, r'"(?:[^"\\]|\\.)*+"', '""')
    return text.rlike(between) & plain.rlike(between)


def events(lines: DataFrame) -> DataFrame:
    """Parsed lines as events, each id once."""
    rows = identified(lines.where("reason is null").select("file", "record.*"))
    # Few ids are there twice, as a rule: only those records are sorted.
    counted = rows.groupBy("event_id").count()
    twice = counted.where("count > 1").select("event_id")
    single = rows.join(twice, "event_id", "left_anti")
    # Should two records claim one id, every run takes the same of them.
    first = Window.partitionBy("event_id").orderBy("at", "kind", "id", "file")
    several = rows.join(twice, "event_id", "left_semi")
    chosen = several.withColumn("copy", F.row_number().over(first)).where("copy = 1").drop("copy")
    return (
        single.unionByName(chosen)
        .withColumn("date", F.to_date(F.timestamp_seconds("at")))
        .select("event_id", *RECORD.names, "file", "date")
    )


def identified(records: DataFrame) -> DataFrame:
    """Records with their `event_id`."""
    number = F.coalesce(F.col("seq").cast("string"), F.col("state"))
    return records.withColumn("event_id", F.concat_ws(":", "node", "pid", "boot", number))


def new_events(found: DataFrame, known: DataFrame) -> DataFrame:
    """Those of `found` that are not among `known`."""
    dates = found.select("date").distinct()
    nearby = known.join(F.broadcast(dates), "date", "left_semi").select("date", "event_id")
    return found.join(nearby, ["date", "event_id"], "left_anti").select(*found.columns)


def quarantine(lines: DataFrame) -> DataFrame:
    """Parsed lines that are no records."""
    return lines.where("reason is not null").select(
        "file", F.substring("text", 1, TEXT_KEPT).alias("text"), "reason"
    )
