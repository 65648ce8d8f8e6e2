"""Silver: processes with a log file of which no record was read.

A process is known by its records. One that has none in the warehouse is known by a file alone,
which is still open, or new, or of which nothing can be read: it lived, and may have started
anything since. So it did if the file is not there any more; but a process that lives has a file,
and so it had ended by the time when there was none of it. The name of a process's first file says
when it was made; if that file is gone, nobody knows. A file without a byte, from a crash, is never
read.
"""

import fnmatch
from collections.abc import Iterator
from time import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from celery_fair.eventlog.log_file import FileName
from celery_fair.eventlog.packer import DIGITS, HOUR, PACKED
from celery_fair.pipeline.storage.store import Store

__all__ = ["UNREAD", "files_there", "packed", "unread"]

UNREAD = "pid long, boot string, since double, until double"
_FILE = "pid long, boot string, since double"
_PATH = r"^(.*/)(([0-9]+)-[^/]*\.jsonl)$"
"""A file's folder, its name, and the time in that."""


def files_there(logs: Store) -> list[str]:
    """Return all files of the log, those that are being written among them.

    Call it after the files to read have been listed: every process that lived then has a file.
    """
    # A file that is renamed while its folder is listed may be overlooked, but not twice.
    found = {path for _ in range(2) for path in logs.below()}
    return sorted(fnmatch.filter(found, "*.jsonl*"))


def unread(
    spark: SparkSession, paths: list[str], known: DataFrame, before: DataFrame | None = None
) -> DataFrame:
    """One row per process that has, or had, a file, and of which nothing was read.

    Arguments:
        paths: see `files_there`.
        known: processes with records (`pid`, `boot`).
        before: what was unread before (`UNREAD`); None: nothing was.
    """
    there = {_row(name) for name in _named(paths)}
    found = spark.createDataFrame(sorted(there, key=str), _FILE)
    found = found.withColumns({"here": F.lit(True), "until": F.lit(None).cast("double")})
    if before is not None:
        gone = before.select("pid", "boot", "since", "until").withColumn("here", F.lit(False))
        found = found.unionByName(gone)
    new = found.join(known.select("pid", "boot"), ["pid", "boot"], "left_anti")
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


def _named(paths: list[str]) -> Iterator[FileName]:
    for path in paths:
        file = path.rpartition("/")[2]
        name = FileName.parse(file.removesuffix(".gz").removesuffix(".zst"))
        if name is not None:
            yield name


def _row(name: FileName) -> tuple[int, str, float | None]:
    return name.pid, name.boot, float(name.since) if name.number == 0 else None
