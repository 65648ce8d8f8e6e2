"""The log's files, and the lines in them.

A file is recognised by its path, size and time of change; a sealed file never changes, so a second
run reads nothing. Of files that are being written copies are read: Spark leaves out files whose
names begin with an underscore, and these go on while they are read.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from celery_fair.pipeline.bronze import parsed, sorted_out
from celery_fair.pipeline.errors import PipelineError
from celery_fair.pipeline.log_files import unglobbed
from celery_fair.pipeline.silver.unreadable import BREAKS_OFF, CANNOT_BE_NAMED
from celery_fair.pipeline.storage.store import Store
from celery_fair.pipeline.warehouse import Run

__all__ = ["Copies", "check", "nothing_in", "open_copies", "sealed_files", "split"]

_OPEN = "_open-*.jsonl"
_ENDS = (".jsonl", ".jsonl.gz", ".jsonl.zst")
_NAMES = f"*{{{','.join(_ENDS)}}}"


class Copies(NamedTuple):
    """Copies of open files, under names that Spark reads."""

    folder: str
    address: str
    files: int
    size: int


def check(logs: Store) -> None:
    """See to it that there is something to read.

    Raises:
        PipelineError: `logs` is no folder, or cannot be read, or has no file of a log.
    """
    if not logs.is_folder():
        raise PipelineError(f"{logs.root} is no folder: give the one that fair_event_log names")
    if not any(path.endswith(_ENDS) for path in logs.below()):
        raise PipelineError(
            f"{logs.root} has no file of an event log (*{', *'.join(_ENDS)}): is it the"
            " folder that fair_event_log names?"
        )


@contextmanager
def open_copies(run: Run, logs: Store, wanted: bool) -> Iterator[Copies | None]:
    """Yield copies of the open files; None if they are not wanted, or there are none."""
    store, folder = run.warehouse.store, run.scratch("open")
    sizes = []
    for number, path in enumerate(_named(logs, _OPEN) if wanted else ()):
        with suppress(FileNotFoundError):  # sealed just now: it is read as such
            content = logs.open(path)
            name = path.rpartition("/")[2].removeprefix("_")
            store.put(f"{folder}/{number}-{name}", content)
            sizes.append(len(content))
    yield Copies(folder, store.address(folder), len(sizes), sum(sizes)) if sizes else None
    if sizes:
        store.remove(folder)


def _named(logs: Store, pattern: str) -> list[str]:
    return sorted(path for path in logs.below() if fnmatchcase(path.rpartition("/")[2], pattern))


def nothing_in(logs: Store) -> str:
    """Why there is nothing to read where there are files: Spark leaves empty ones out."""
    sealed = any(not path.rpartition("/")[2].startswith("_") for path in _named(logs, "*.jsonl*"))
    why = f"{logs.root}: its files are empty" if sealed else f"{logs.root} has no sealed file yet"
    if _named(logs, _OPEN):
        why += "; what workers are writing is read with --include-open"
    return why


def sealed_files(spark: SparkSession, logs: Store) -> DataFrame:
    """Every sealed file (`file`, `size`, `changed`)."""
    # What is being packed may be overlooked, its files and the pack, but not twice.
    return _listed(spark, logs).unionByName(_listed(spark, logs)).distinct()


def _listed(spark: SparkSession, logs: Store) -> DataFrame:
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", True)
    files = reader.option("pathGlobFilter", _NAMES).load(unglobbed(logs.address()))
    # Hadoop cannot read what it takes for a scheme and a path, and nothing else beside it.
    named = files.where(~F.col("path").rlike(CANNOT_BE_NAMED))
    return named.selectExpr("path as file", "length as size", "modificationTime as changed")


def split(
    run: Run, paths: list[str], copies: Copies | None, broken_off: list[str]
) -> dict[str, str]:
    """Read files, those that break off up to there; see `Run.split`."""
    spark = run.warehouse.spark
    whole = [path for path in paths if path not in broken_off]
    staged = parsed(_lines(spark, [unglobbed(path) for path in whole]))
    if copies is not None:
        of_open = parsed(_lines(spark, [unglobbed(copies.address)]))
        staged = staged.unionByName(of_open.where("wrong is null"))
    if broken_off:
        rest = [unglobbed(path) for path in broken_off]
        named = spark.read.format("binaryFile").load(rest).select("_metadata.file_path")
        staged = staged.unionByName(parsed(_lines(spark, rest, lenient=True))).unionByName(
            named.select(
                F.col("file_path").alias("file"),
                F.lit("").alias("text"),
                F.lit(BREAKS_OFF).alias("wrong"),
            ),
            allowMissingColumns=True,
        )
    return run.split(sorted_out(staged), "table", ["events", "quarantine"])


def _lines(spark: SparkSession, paths: list[str], lenient: bool = False) -> DataFrame:
    reader = spark.read.option("recursiveFileLookup", True).option("ignoreCorruptFiles", lenient)
    if not paths:
        return spark.createDataFrame([], "value string, file string")
    lines = reader.text(paths, lineSep="\n")
    return lines.select("value", F.col("_metadata.file_path").alias("file"))
