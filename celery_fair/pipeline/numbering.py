"""Which records were read: each counts once, by its number.

The same event may be read twice, from a copy of a file or from a file read while it was open. It is
recognised by its id, `node:pid:boot:seq`; what another says of a process, that it is dead, is not
among its numbers, whichever it has. Which numbers of a process were read is remembered in
*words* of 64 bits (`numbers`): as a rule each record of a word sets another bit, and no bit that
was set by a run before, and then nothing needs to be sorted or compared. Only in words where that
is not so, events are looked at one by one (`distinct`).
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

PROCESS = ("node", "pid", "boot")
WORD = (*PROCESS, "word")

NUMBERS = "node string, pid bigint, boot string, word bigint, bits bigint, read bigint"


def numbers(found: DataFrame) -> DataFrame:
    """One row per word: `bits` for the records that are in it, and how many records set them."""
    return (
        _placed(found)
        .groupBy(*WORD)
        .agg(F.bit_or("bit").alias("bits"), F.count(F.lit(1)).alias("read"))
    )


def is_dead() -> Column:
    """Whether a record says of a process that it is dead: another one has written that."""
    return F.coalesce(F.col("state") == "dead", F.lit(False))


def suspects(found: DataFrame, known: DataFrame) -> DataFrame:
    """The words with records that were read before: their names, and the bits that were `taken`.

    Arguments:
        found, known: `numbers` of this run, and of the runs before.
    """
    none = F.lit(0).cast("long")
    before = known.join(found.select(*WORD), list(WORD), "left_semi")
    before = before.groupBy(*WORD).agg(F.bit_or("bits").alias("taken"))
    joined = found.join(before, list(WORD), "left").withColumn("taken", F.coalesce("taken", none))
    return joined.where("read > bit_count(bits) or (bits & taken) <> 0").select(*WORD, "taken")


def distinct(found: DataFrame, suspected: DataFrame) -> DataFrame:
    """Events that were not read before, each once."""
    placed = _placed(found)
    single = placed.join(suspected, list(WORD), "left_anti")
    # Of two records that claim one id every run takes the same.
    first = Window.partitionBy(*WORD, "bit").orderBy("at", "kind", "id", "file")
    several = placed.join(suspected, list(WORD)).withColumn("copy", F.row_number().over(first))
    chosen = several.where("copy = 1 and (bit & taken) = 0")
    return single.select(*found.columns).unionByName(chosen.select(*found.columns))


def _placed(found: DataFrame) -> DataFrame:
    """Events with the word and the bit of each.

    What declares a process dead has no number, and so words of its own. It may be said twice, and
    not of the same.
    """
    said = F.xxhash64("at", "last", "dropped").bitwiseAND((1 << 48) - 1)
    number = F.when(is_dead(), said).otherwise(F.col("seq"))
    bit = F.call_function("shiftleft", F.lit(1).cast("long"), number.bitwiseAND(63).cast("int"))
    return found.withColumns({"word": F.shiftright(number, 6), "bit": bit})
