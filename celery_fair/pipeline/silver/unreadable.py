"""Silver: files that cannot be read as a whole, and what they may have had.

Such files break off (`celery_fair.pipeline.broken_files`), or have no byte, or a name that Spark
cannot read; or they have lines that are no records, and do not say whose.

A process's file had records of that process, a pack those of several, another file anybody's. Each
was written after the time that the file's name begins with, in a name of the log's own, and before
the file was changed last.
"""

from fnmatch import fnmatchcase

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from celery_fair.eventlog.log_file import FileName
from celery_fair.eventlog.packer import PACKED
from celery_fair.pipeline.numbering import CLASH

__all__ = [
    "BREAKS_OFF",
    "CANNOT_BE_NAMED",
    "path_of",
    "torn_boot",
    "unlisted",
    "unreadable",
    "without_process",
]

BREAKS_OFF = "the file breaks off"
"""In the quarantine, the reason of a row that stands for all that cannot be read of a file."""

_OF_PROCESS = r"/([0-9]+)-[^/]*-([0-9]+)-([^-/]+)-[0-9]+\.jsonl\.(?:gz|zst)$"
_OF_FILE = r"-([^-/]+)-[0-9]+\.jsonl(?:\.gz|\.zst)?$"
"""The end of a file's name: the process's boot, and which of its files it is."""

_BOOT = r'"boot"\s*:\s*"([^"]+)"'
"""A process's boot, in a line."""

CANNOT_BE_NAMED = r"/[^/]*:[^/]*$"
"""A file's path if Hadoop takes the first part of its name for a scheme."""

_OF_PACK = rf"/([0-9]+)-[0-9a-f]+{PACKED.replace('.', '[.]')}$"


def path_of(address: str) -> Column:
    """Return the path, as it is listed, of a file as it is named beside its lines."""
    plain = F.try_url_decode(F.replace(F.col(address), F.lit("+"), F.lit("%2B")))
    return F.regexp_replace(F.coalesce(plain, F.col(address)), "^file:/+", "file:/")


def torn_boot() -> Column:
    """Whose a line that is no record is, by its file; "" if nobody knows.

    A pack is of several processes, but has no line that is no JSON object. A record whose number
    another has says whose it is.
    """
    says = F.col("file").endswith(PACKED) | (F.col("reason") == CLASH)
    said = F.when(says, F.regexp_extract("text", _BOOT, 1))
    return F.coalesce(said, F.regexp_extract("file", _OF_FILE, 1))


def unreadable(quarantine: DataFrame, files: DataFrame) -> DataFrame:
    """One row per file that is not whole, with the process, if its name says that, and the times.

    Lines that are no records count if they do not say whose they are: else they are among what
    their process has dropped.
    """
    changed = files.groupBy("file").agg(F.max("changed").alias("changed"))
    breaks_off = F.col("reason") == BREAKS_OFF
    of_nobody = (F.col("reason") != "empty") & (torn_boot() == "")
    why = F.when(breaks_off, "a file of the log breaks off: ")
    found = quarantine.where(breaks_off | of_nobody).select(
        path_of("file").alias("file"),
        F.coalesce(why, F.lit("lines of a file are no records: ")).alias("why"),
    )
    boot = F.regexp_extract("file", _OF_PROCESS, 3)
    return (
        found.distinct()
        .join(changed, "file")
        .select(
            "file",
            F.regexp_extract("file", _OF_PROCESS, 2).try_cast("long").alias("pid"),
            F.when(boot != "", boot).alias("boot"),
            _since().alias("since"),
            (F.unix_micros("changed") / 1e6).alias("until"),
            F.concat("why", _name()).alias("why"),
        )
    )


def without_process(paths: list[str]) -> list[str]:
    """Return the sealed files among some whose names are not those of one process's files."""
    return list(filter(_is_odd, paths))


def unlisted(spark: SparkSession, paths: list[str], files: DataFrame) -> DataFrame:
    """The same of files that were never among those to read (`file`).

    They are empty, or have such names.

    Arguments:
        paths: see `without_process`.
    """
    found = spark.createDataFrame([(path,) for path in paths], "file string")
    # Folders have several names, and those of packs have a digest.
    counted = found.groupBy(_name().alias("name")).agg(
        F.count(F.lit(1)).alias("there"), F.min("file").alias("file")
    )
    read = files.select("file").distinct().groupBy(_name().alias("name")).count()
    return (
        counted.join(read, "name", "left")
        .where("there > coalesce(count, 0)")
        .select(
            "file",
            F.lit(None).cast("long").alias("pid"),
            F.lit(None).cast("string").alias("boot"),
            _since().alias("since"),
            F.lit(float("inf")).alias("until"),
            F.concat(F.lit("a file of the log is empty, or cannot be named: "), "name").alias(
                "why"
            ),
        )
    )


def _is_odd(path: str) -> bool:
    name = path.rpartition("/")[2]
    ends = any(fnmatchcase(name, f"*.jsonl{end}") for end in ("", ".gz", ".zst"))
    of_process = FileName.parse(name.removesuffix(".gz").removesuffix(".zst"))
    return ends and not name.startswith(("_", ".")) and of_process is None


def _name() -> Column:
    return F.element_at(F.split("file", "/"), -1)


def _since() -> Column:
    times = (
        F.regexp_extract("file", pattern, 1).try_cast("double")
        for pattern in (_OF_PROCESS, _OF_PACK)
    )
    return F.coalesce(*times, F.lit(float("-inf")))
