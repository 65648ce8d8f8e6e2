"""Which records were read: each counts once, by its number.

The same event may be read twice, from a copy of a file or from a file read while it was open. It is
recognised by its id, `node:pid:boot:seq`; what another says of a process, that it is dead, is not
among its numbers, whichever it has. Which numbers of a process were read is remembered in
*words* of 64 bits (`numbers`): as a rule each record of a word sets another bit, and no bit that
was set by a run before, and then nothing needs to be sorted or compared. Only in words where that
is not so, events are looked at one by one (`distinct`).

A disk that fails may change a record's number to one that another record has. Then one of both
would be lost in silence, and so with a word goes a digest of its records: where what is read again
has another digest, one by one is compared with the event that was kept, and those that differ are
*clashes*.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

__all__ = ["CLASH", "NUMBERS", "PROCESS", "clashes", "digest", "distinct", "numbers", "suspects"]

PROCESS = ("node", "pid", "boot")
WORD = (*PROCESS, "word")

NUMBERS = (
    "node string, pid bigint, boot string, word bigint, bits bigint, read bigint, digest bigint"
)

CLASH = "another record has its number"
"""In the quarantine, the reason of a record."""

_COMPARED = ("kind", "state", "id", "queue")


def numbers(found: DataFrame, apart: str | None = None) -> DataFrame:
    """One row per word: `bits` for the records that are in it, and how many records set them.

    And their `digest`, null if some of them were read twice.

    Arguments:
        apart: what stands in the paths of files that will be read again without the others: their
            records get rows of their own.
    """
    word, bit = _place()
    together = F.lit(False) if apart is None else F.col("file").contains(apart)
    placed = found.select(
        *PROCESS,
        word.alias("word"),
        bit.alias("bit"),
        digest().alias("digest"),
        together.alias("apart"),
    )
    once = F.count(F.lit(1)) == F.bit_count(F.bit_or("bit"))
    by_word = placed.groupBy(*WORD, "apart").agg(
        F.bit_or("bit").alias("bits"),
        F.count(F.lit(1)).alias("read"),
        F.when(once, F.bit_xor("digest")).alias("digest"),
    )
    return by_word.drop("apart")


def _place() -> tuple[Column, Column]:
    """Word and bit of an event.

    What declares a process dead has no number, and so words of its own. It may be said twice, and
    not of the same.
    """
    said = F.xxhash64("at", "last", "dropped").bitwiseAND((1 << 48) - 1)
    number = F.when(_is_dead(), said).otherwise(F.col("seq"))
    word = F.shiftright(number, 6)
    bit = F.call_function("shiftleft", F.lit(1).cast("long"), number.bitwiseAND(63).cast("int"))
    return F.when(_is_dead(), word - (1 << 62)).otherwise(word), bit


def _is_dead() -> Column:
    return F.coalesce(F.col("state") == "dead", F.lit(False))


def digest() -> Column:
    """What tells two records of a process apart; times are as exact as the log has them."""
    return F.xxhash64(F.round(F.col("at") * 1e6).cast("long"), *_COMPARED)


def suspects(found: DataFrame, known: DataFrame | None = None) -> DataFrame:
    """The words with records that were read before: their names, and the bits that were `taken`.

    Arguments:
        found, known: `numbers` of this run, and of the runs before.
    """
    found = found.groupBy(*WORD).agg(F.bit_or("bits").alias("bits"), F.sum("read").alias("read"))
    none = F.lit(0).cast("long")
    if known is None:
        return found.where("read > bit_count(bits)").select(*WORD, none.alias("taken"))
    before = known.join(found.select(*WORD), list(WORD), "left_semi")
    before = before.groupBy(*WORD).agg(F.bit_or("bits").alias("taken"))
    joined = found.join(before, list(WORD), "left").withColumn("taken", F.coalesce("taken", none))
    return joined.where("read > bit_count(bits) or (bits & taken) <> 0").select(*WORD, "taken")


def distinct(found: DataFrame, suspected: DataFrame) -> DataFrame:
    """Events that were not read before, each once."""
    single = _placed(found).join(suspected, list(WORD), "left_anti")
    chosen = _copies(found, suspected).where("copy = 1 and not known")
    return single.select(*found.columns).unionByName(chosen.select(*found.columns))


def clashes(
    found: DataFrame,
    suspected: DataFrame,
    known: DataFrame | None = None,
    kept: DataFrame | None = None,
) -> DataFrame:
    """Records whose numbers other events have (`file`, `text`, `reason`), of the suspected words.

    Arguments:
        known: `numbers` of the runs before.
        kept: the events of the runs before; they are looked at if digests leave it open, only.
    """
    copies = _copies(found, suspected).where(~_is_dead())
    clashing = copies.where("digest <> digest_of_first").select(*found.columns)
    if known is not None and kept is not None:
        again = copies.where("copy = 1 and known")
        unsure = F.broadcast(_unsure(again, known))
        before = _placed(kept.where(~_is_dead())).join(unsure, list(WORD), "left_semi")
        before = before.select(*WORD, "bit", F.col("digest").alias("digest_before"))
        other = again.join(before, [*WORD, "bit"]).where("digest <> digest_before")
        clashing = clashing.unionByName(other.select(*found.columns))
    text = F.to_json(F.struct(*(name for name in found.columns if name not in ("file", "date"))))
    return clashing.select("file", text.alias("text"), F.lit(CLASH).alias("reason"))


def _placed(found: DataFrame) -> DataFrame:
    word, bit = _place()
    return found.withColumns({"word": word, "bit": bit, "digest": digest()})


def _copies(found: DataFrame, suspected: DataFrame) -> DataFrame:
    """The events of some words, those of one number counted, and whether it is `known`."""
    # Should two records claim one id, every run takes the same of them.
    first = Window.partitionBy(*WORD, "bit").orderBy("at", "kind", "id", "file")
    several = _placed(found).join(suspected, list(WORD))
    return several.withColumns(
        {
            "copy": F.row_number().over(first),
            "digest_of_first": F.first("digest").over(first),
            "known": (F.col("bit").bitwiseAND(F.col("taken")) != 0),
        }
    )


def _unsure(again: DataFrame, known: DataFrame) -> DataFrame:
    """The words of which digests do not show that what was read again is what was read before.

    That can be seen of the records that were counted together, if all of them are there again.
    """
    then = known.select(*WORD, "bits", F.col("digest").alias("digest_before")).distinct()
    joined = again.join(then, list(WORD)).where("(bit & bits) <> 0")
    compared = joined.groupBy(*WORD, "bits", "digest_before").agg(
        F.bit_or("bit").alias("there"), F.bit_xor("digest").alias("digest")
    )
    same = (F.col("there") == F.col("bits")) & (F.col("digest") == F.col("digest_before"))
    return compared.where(~F.coalesce(same, F.lit(False))).select(*WORD).distinct()
