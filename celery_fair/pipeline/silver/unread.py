"""Silver: files of the log of which something was not read, and what they may have had.

A process is known by its records. One that has none in the warehouse is known by a file alone,
which is still open, or new, or of which nothing can be read: it lived, and may have started
anything since. So it did if the file is not there any more; but a process that lives has a file,
and so it had ended by the time when there was none of it. The name of a process's first file says
when it was made; if that file is gone, nobody knows. A file without a byte, from a crash, is never
read.

Other files cannot be read as a whole. They break off (`celery_fair.pipeline.reading`), or have no
byte, or a name that Spark cannot read; or they have lines that are no records, and do not say
whose.

A process's file had records of that process, a pack those of several, another file anybody's. Each
was written after the time that the file's name begins with, in a name of the log's own, and before
the file was changed last.
"""

from pathlib import Path
from time import time

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from celery_fair.eventlog.log_file import FileName
from celery_fair.eventlog.packer import DIGITS, HOUR, PACKED
from celery_fair.pipeline.log_files import log_files
from celery_fair.pipeline.warehouse import Warehouse

_ENDS = (".jsonl", ".jsonl.gz", ".jsonl.zst")

UNREAD = "pid long, boot string, since double, until double"
UNREADABLE = "file string, pid long, boot string, since double, until double, why string"
_FILE = "pid long, boot string, since double"
_PATH = r"^(.*/)(([0-9]+)-[^/]*\.jsonl)$"
"""A file's folder, its name, and the time in that."""

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


def renew_unread(warehouse: Warehouse, logs: Path) -> None:
    """Bring the tables up to date of whose logs, and which files, were not read as a whole."""
    spark, there = warehouse.spark, files_there(logs)
    processes, torn = warehouse.table("processes"), warehouse.table("quarantine")
    before = warehouse.known("unread", UNREAD)
    warehouse.replace("unread", unread(spark, there, processes, before))
    odd = without_process(there)
    found = spark.createDataFrame([], UNREADABLE)
    if odd or not torn.isEmpty():
        read = warehouse.table("files")
        found = unreadable(torn, read).unionByName(unlisted(spark, odd, read))
    warehouse.replace("unreadable", found)


# Processes --------------------------------------------------------------------


def files_there(logs: Path) -> list[str]:
    """Return all files of the log, those that are being written among them.

    Call it after the files to read have been listed: every process that lived then has a file.
    """
    # A file that is renamed while its folder is listed may be overlooked, but not twice.
    found = {str(path) for _ in range(2) for path in log_files(logs, "*")}
    return sorted(path for path in found if ".jsonl" in path.rpartition("/")[2])


def unread(spark: SparkSession, paths: list[str], known: DataFrame, before: DataFrame) -> DataFrame:
    """One row per process that has, or had, a file, and of which nothing was read.

    Arguments:
        paths: see `files_there`.
        known: processes with records (`pid`, `boot`).
        before: what was unread before (`UNREAD`).
    """
    there = {_row(name) for name in filter(None, map(_parsed, paths))}
    found = spark.createDataFrame(sorted(there, key=str), _FILE)
    found = found.withColumns({"here": F.lit(True), "until": F.lit(None).cast("double")})
    gone = before.select("pid", "boot", "since", "until").withColumn("here", F.lit(False))
    new = found.unionByName(gone).join(known.select("pid", "boot"), ["pid", "boot"], "left_anti")
    until = F.coalesce(F.min("until"), F.lit(time()))
    return new.groupBy("pid", "boot").agg(
        F.min("since").alias("since"), F.when(~F.max("here"), until).alias("until")
    )


def packed(read: DataFrame) -> DataFrame:
    """Which packs (`file`) have nothing but files that were read (`file`, `size`).

    Of each folder and hour that is the one whose name has the digest of these; see
    `celery_fair.eventlog.packer`.
    """
    parts = F.regexp_extract("file", _PATH, 1), F.regexp_extract("file", _PATH, 2)
    since = F.regexp_extract("file", _PATH, 3).try_cast("long")
    named = read.select(
        parts[0].alias("folder"),
        F.floor(since / HOUR).alias("hour"),
        F.concat_ws(" ", parts[1], "size").alias("member"),
    )
    text = F.array_join(F.sort_array(F.collect_list("member")), ",")
    digest = F.substring(F.sha2(text, 256), 1, DIGITS)
    known = named.where("hour is not null").groupBy("folder", "hour").agg(digest.alias("digest"))
    name = F.concat(F.col("hour") * HOUR, F.lit("-"), "digest", F.lit(PACKED))
    return known.select(F.concat("folder", name).alias("file"))


def _parsed(path: str) -> FileName | None:
    """Return what the name of a process's file says, compressed or not."""
    file = path.rpartition("/")[2]
    return FileName.parse(file.removesuffix(".gz").removesuffix(".zst"))


def _row(name: FileName) -> tuple[int, str, float | None]:
    return name.pid, name.boot, float(name.since) if name.number == 0 else None


# Files ------------------------------------------------------------------------


def path_of(address: str) -> Column:
    """Return the path, as it is listed, of a file as it is named beside its lines."""
    plain = F.try_url_decode(F.replace(F.col(address), F.lit("+"), F.lit("%2B")))
    return F.regexp_replace(F.coalesce(plain, F.col(address)), "^file:/+", "file:/")


def torn_boot() -> Column:
    """Whose a line that is no record is, by its file; "" if nobody knows.

    A pack is of several processes, but has no line that is no JSON object.
    """
    said = F.when(F.col("file").endswith(PACKED), F.regexp_extract("text", _BOOT, 1))
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
    odd = (path for path in paths if path.endswith(_ENDS) and _parsed(path) is None)
    return [path for path in odd if not path.rpartition("/")[2].startswith(("_", "."))]


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


def _name() -> Column:
    return F.element_at(F.split("file", "/"), -1)


def _since() -> Column:
    times = (
        F.regexp_extract("file", pattern, 1).try_cast("double")
        for pattern in (_OF_PROCESS, _OF_PACK)
    )
    return F.coalesce(*times, F.lit(float("-inf")))
