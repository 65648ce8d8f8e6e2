"""Silver: files that break off (`celery_fair.pipeline.broken_files`), and what they may have had.

A process's file had records of that process, a pack those of several, another file anybody's. Each
was written after the time that the file's name begins with, in a name of the log's own, and before
the file was changed last.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from celery_fair.eventlog.packer import PACKED

__all__ = ["BREAKS_OFF", "path_of", "unreadable"]

BREAKS_OFF = "the file breaks off"
"""In the quarantine, the reason of a row that stands for all that cannot be read of a file."""

_OF_PROCESS = r"/([0-9]+)-[^/]*-([0-9]+)-([^-/]+)-[0-9]+\.jsonl\.(?:gz|zst)$"
_OF_PACK = rf"/([0-9]+)-[0-9a-f]+{PACKED.replace('.', '[.]')}$"


def path_of(address: str) -> Column:
    """Return the path, as it is listed, of a file as it is named beside its lines."""
    plain = F.try_url_decode(F.replace(F.col(address), F.lit("+"), F.lit("%2B")))
    return F.regexp_replace(F.coalesce(plain, F.col(address)), "^file:/+", "file:/")


def unreadable(quarantine: DataFrame, files: DataFrame) -> DataFrame:
    """One row per file that breaks off, with the process, if its name says that, and the times."""
    changed = files.groupBy("file").agg(F.max("changed").alias("changed"))
    found = quarantine.where(F.col("reason") == BREAKS_OFF).select(path_of("file").alias("file"))
    of_process, of_pack = (
        F.regexp_extract("file", pattern, 1).try_cast("double")
        for pattern in (_OF_PROCESS, _OF_PACK)
    )
    boot = F.regexp_extract("file", _OF_PROCESS, 3)
    return (
        found.distinct()
        .join(changed, "file")
        .select(
            "file",
            F.regexp_extract("file", _OF_PROCESS, 2).try_cast("long").alias("pid"),
            F.when(boot != "", boot).alias("boot"),
            F.coalesce(of_process, of_pack, F.lit(float("-inf"))).alias("since"),
            (F.unix_micros("changed") / 1e6).alias("until"),
        )
    )
