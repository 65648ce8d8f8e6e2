"""Bronze: the log's lines as events, each once; what is not a record goes to the quarantine.

A line is a record if it is one complete JSON object with values of the schema's types that names
its process, its number there and its time. A killed writer leaves a torn last line, a failing disk
leaves garbage: such lines are kept, with the reason and the file they came from. Unknown fields are
left out. An unknown kind, from a later version, is kept, or else its number would be missing. From
here on times and durations are seconds, whichever version wrote them.

The same event may be read twice, from a copy of a file or from a file read while it was open. It is
recognised by its id, `node:pid:boot:seq`; what another says of a process, that it is dead, is not
among its numbers, whichever it has. Which numbers of a process were read is remembered in
*words* of 64 bits (`numbers`): as a rule each record of a word sets another bit, and no bit that
was set by a run before, and then nothing needs to be sorted or compared. Only in words where that
is not so, events are looked at one by one (`distinct`).
"""

from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from celery_fair.pipeline.schema import RECORD, in_seconds

__all__ = [
    "EVENTS",
    "NUMBERS",
    "PROCESS",
    "QUARANTINE",
    "distinct",
    "events",
    "identified",
    "numbers",
    "parsed",
    "quarantine",
    "sorted_out",
    "suspects",
]

PROCESS = ("node", "pid", "boot")
WORD = (*PROCESS, "word")

EVENTS = StructType(RECORD.fields).add("file", "string").add("date", "date")
QUARANTINE = "file string, text string, reason string"

NUMBERS = "node string, pid bigint, boot string, word bigint, bits bigint, read bigint"
TEXT_KEPT = 2000
_LAST_TIME = 253402300800.0  # the year 10000: what is beyond has no date
_COUNTED = ("seq", "last", "dropped", "concurrency")
_MOST = 1 << 48
_WRONG = "_wrong"
_IDENTITY = ("kind", "node", "pid", "boot", "at")


def parsed(lines: DataFrame) -> DataFrame:
    """Lines (`value`, `file`) as `file`, `text`, the fields, and `wrong` if they are no record."""
    schema = StructType([*RECORD.fields, StructField(_WRONG, StringType())])
    # JSON has no NaN, and a sum with one is none.
    options = {
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": _WRONG,
        "allowNonNumericNumbers": "false",
    }
    # Who copies files through Windows ends lines its way, and may begin a file with a mark.
    text = F.btrim(F.make_valid_utf8("value"), F.lit("\r\ufeff")).alias("text")
    read = lines.select("file", text)
    read = read.withColumn("record", F.from_json("text", schema, options))
    return read.select("file", "text", _wrong().alias("wrong"), *in_seconds(F.col("record")))


def _wrong() -> Column:
    record = F.col("record")
    named = [record[name].isNotNull() for name in _IDENTITY]
    dead = (record["kind"] == "process") & (record["state"] == "dead")
    complete, at = F.lit(True), _at(record)
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


def _at(record: Column) -> Column:
    return F.when(record["v"] >= 2, record["at"] / 1e6).otherwise(record["at"])


def sorted_out(lines: DataFrame) -> DataFrame:
    """Parsed lines with all columns of both tables, and the name of theirs in `table`."""
    date = F.to_date(F.timestamp_seconds("at")).alias("date")
    is_record = F.col("wrong").isNull()
    text = F.when(~is_record, F.substring("text", 1, TEXT_KEPT)).alias("text")
    table = F.when(is_record, "events").otherwise("quarantine").alias("table")
    return lines.select(*RECORD.names, "file", date, text, "wrong", table)


def events(lines: DataFrame) -> DataFrame:
    """Parsed lines as events, each id once."""
    found = sorted_out(lines).where("table = 'events'").select(*EVENTS.names)
    return distinct(found, suspects(numbers(found)))


def quarantine(lines: DataFrame) -> DataFrame:
    """Parsed lines that are no records."""
    found = sorted_out(lines).where("table = 'quarantine'")
    return found.select("file", "text", F.col("wrong").alias("reason"))


def numbers(found: DataFrame) -> DataFrame:
    """One row per word: `bits` for the records that are in it, and how many records set them."""
    word, bit = _place()
    by_word = found.select(*PROCESS, word.alias("word"), bit.alias("bit")).groupBy(*WORD)
    return by_word.agg(F.bit_or("bit").alias("bits"), F.count(F.lit(1)).alias("read"))


def _place() -> tuple[Column, Column]:
    """Word and bit of an event.

    What declares a process dead has no number, or had one that a record may have that the process
    writes nevertheless, and so words of its own. It may be said twice, of other last records.
    """
    dead = F.coalesce(F.col("state") == "dead", F.lit(False))
    number = F.coalesce(F.when(dead, F.col("last")), F.col("seq"), F.lit(0))
    word = F.shiftright(number, 6)
    bit = F.call_function("shiftleft", F.lit(1).cast("long"), number.bitwiseAND(63).cast("int"))
    return F.when(dead, word - (1 << 62)).otherwise(word), bit


def suspects(found: DataFrame, known: DataFrame | None = None) -> DataFrame:
    """The words with records that were read before: their names, and the bits that were `taken`.

    Arguments:
        found, known: `numbers` of this run, and of the runs before.
    """
    none = F.lit(0).cast("long")
    if known is None:
        return found.where("read > bit_count(bits)").select(*WORD, none.alias("taken"))
    before = known.join(found.select(*WORD), list(WORD), "left_semi")
    before = before.groupBy(*WORD).agg(F.bit_or("bits").alias("taken"))
    joined = found.join(before, list(WORD), "left").withColumn("taken", F.coalesce("taken", none))
    return joined.where("read > bit_count(bits) or (bits & taken) <> 0").select(*WORD, "taken")


def distinct(found: DataFrame, suspected: DataFrame) -> DataFrame:
    """Events that were not read before, each once."""
    word, bit = _place()
    placed = found.withColumn("word", word).withColumn("bit", bit)
    single = placed.join(suspected, list(WORD), "left_anti")
    several = placed.join(suspected, list(WORD)).where("(bit & taken) = 0")
    # Should two records claim one id, every run takes the same of them.
    first = Window.partitionBy(*WORD, "bit").orderBy("at", "kind", "id", "file")
    chosen = several.withColumn("copy", F.row_number().over(first)).where("copy = 1")
    return single.select(*found.columns).unionByName(chosen.select(*found.columns))


def identified(records: DataFrame) -> DataFrame:
    """Records with their `event_id`."""
    number = F.coalesce(F.col("seq").cast("string"), F.col("state"))
    return records.withColumn("event_id", F.concat_ws(":", "node", "pid", "boot", number))
