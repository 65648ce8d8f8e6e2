"""From logs to a warehouse: reads the new files and brings silver up to date.

A file is recognised by its path, size and time of change; a sealed file never changes, so a second
run reads nothing. Events that are read twice nevertheless, from a copy or from a file that was
still open, are recognised by their ids. Of silver only that is made again which new events touch,
see `celery_fair.pipeline.silver.renewal`.
"""

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from celery_fair.eventlog.packer import PACKED
from celery_fair.pipeline.bronze import (
    EVENTS,
    NUMBERS,
    QUARANTINE,
    distinct,
    numbers,
    parsed,
    sorted_out,
    suspects,
)
from celery_fair.pipeline.errors import PipelineError
from celery_fair.pipeline.silver.processes import processes_of
from celery_fair.pipeline.silver.renewal import renew_attempts, renew_by_process
from celery_fair.pipeline.silver.unread import packed, unread
from celery_fair.pipeline.warehouse import Run, Warehouse

__all__ = ["Ingested", "check", "ingest"]

_OPEN = "_open-*.jsonl"
_ENDS = ("jsonl", "jsonl.gz", "jsonl.zst")
_NAMES = f"*.{{{','.join(_ENDS)}}}"
_TRIES = 3
_GONE = ("FileNotFoundException", "FILE_NOT_EXIST", "PATH_NOT_FOUND")
_GROWING = ("files", "numbers", "events", "attempts")
"""The tables that get a folder more with each run."""

_UNGLOBBED = re.compile(r"([\\{}\[\]*?])")


@dataclass
class Ingested:
    """What a run of ingest did."""

    version: int = 0
    files: int = 0
    open_files: int = 0
    lines: int = 0
    events: int = 0
    duplicates: int = 0
    quarantined: dict[str, int] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def ingest(
    warehouse: Warehouse,
    logs: Path,
    include_open: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Ingested:
    """Read what is new under `logs`; publish the next version if there is anything.

    Arguments:
        include_open: read the files too that are being written; their torn last lines are ignored.
        say: is told what is being done.

    Raises:
        PipelineError: `logs` is no folder, or an empty one, or another run has published meanwhile.
    """
    check(logs)
    for _ in range(_TRIES - 1):
        try:
            return _tried(warehouse, logs, include_open, say)
        except Exception as exc:  # Spark's errors have no common class; others are re-raised
            if not any(word in str(exc) for word in _GONE):
                raise
            say("a file is gone that was there a moment ago, and was packed, it seems: once more")
    return _tried(warehouse, logs, include_open, say)


def check(logs: Path) -> None:
    """See to it that there is something to read, before Spark is started for it.

    Raises:
        PipelineError: `logs` is no folder, or has no file of a log.
    """
    if not logs.is_dir():
        raise PipelineError(
            f"{logs.absolute()} is no folder: give the one that fair_event_log names"
        )
    if not any(next(logs.rglob(f"*.{name}"), None) for name in _ENDS):
        raise PipelineError(
            f"{logs.absolute()} has no file of an event log (*.{', *.'.join(_ENDS)}): is it the"
            " folder that fair_event_log names?"
        )


def _tried(
    warehouse: Warehouse, logs: Path, include_open: bool, say: Callable[[str], None]
) -> Ingested:
    run = warehouse.begin()
    try:
        with _open_copies(run, logs, include_open) as copies:
            return _ingest(run, logs.absolute(), copies, say)
    except BaseException:  # whatever ends it, an interrupt too, leaves nothing behind; re-raised
        run.discard()
        raise


def _ingest(run: Run, logs: Path, copies: Path | None, say: Callable[[str], None]) -> Ingested:
    spark = run.warehouse.spark
    say(f"listing the files below {logs}")
    # What is being packed may be overlooked, its files and the pack, but not twice.
    found = _listed(spark, logs).unionByName(_listed(spark, logs)).distinct()
    known = run.known("files", found.schema)
    files = run.extend("files", found.join(known, ["file", "size", "changed"], "left_anti"))
    is_packed = F.col("file").endswith(PACKED)
    (counts,) = files.agg(F.count("file").alias("n"), F.count_if(is_packed).alias("p")).collect()
    done = Ingested(version=run.version, files=counts["n"])
    if counts["p"]:
        files = files.join(packed(known), "file", "left_anti")
    if copies is not None:
        done.open_files = len(list(copies.iterdir()))
    if not done.files and not done.open_files:
        if known.isEmpty():
            raise PipelineError(
                f"{logs} has no sealed file yet: what workers are writing is read with"
                " --include-open"
            )
        run.discard()
        done.version -= 1
        return done
    run.replace("unread", unread(spark, logs, run.known("files", found.schema)))
    say(f"reading {done.files} new files and {done.open_files} open ones")
    new = _bronze(run, _staged(spark, files, copies), done)
    _silver(run, new, say)
    for table in _GROWING:
        run.compact(table)
    run.publish()
    return done


def _listed(spark: SparkSession, logs: Path) -> DataFrame:
    """Every sealed file; Spark leaves out those whose names begin with an underscore."""
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", True)
    files = reader.option("pathGlobFilter", _NAMES).load(str(logs))
    return files.selectExpr("path as file", "length as size", "modificationTime as changed")


def _staged(spark: SparkSession, files: DataFrame, copies: Path | None) -> DataFrame:
    paths = [_UNGLOBBED.sub(r"\\\1", row["file"]) for row in files.select("file").collect()]
    staged = parsed(_lines(spark, paths))
    if copies is not None:
        of_open = parsed(_lines(spark, [str(copies)]))
        staged = staged.unionByName(of_open.where("wrong is null"))
    return staged


def _lines(spark: SparkSession, paths: list[str]) -> DataFrame:
    reader = spark.read.option("recursiveFileLookup", True)
    if not paths:
        return spark.createDataFrame([], "value string, file string")
    lines = reader.text(paths, lineSep="\n")
    return lines.select("value", F.col("_metadata.file_path").alias("file"))


def _bronze(run: Run, staged: DataFrame, done: Ingested) -> DataFrame:
    """Write the bronze tables; return the new events."""
    folders = run.split(sorted_out(staged), "table", ["events", "quarantine"])
    _quarantine(run, folders.get("quarantine"), done)
    return _events(run, folders.get("events"), done)


def _quarantine(run: Run, folder: str | None, done: Ingested) -> None:
    if folder is None:
        if not run.has("quarantine"):
            run.replace("quarantine", run.known("quarantine", QUARANTINE))
        return
    written = run.warehouse.read([folder], "file string, text string, wrong string")
    bad = written.select("file", "text", F.col("wrong").alias("reason"))
    counts = bad.groupBy("reason").count().collect()
    done.quarantined = {row["reason"]: row["count"] for row in counts}
    done.lines += sum(done.quarantined.values())
    # A file that has grown since is read whole: what it had in quarantine is judged anew.
    before = run.known("quarantine", QUARANTINE)
    before = before.join(bad.select("file").distinct(), "file", "left_anti")
    run.replace("quarantine", before.select(*bad.columns).unionByName(bad))
    run.remove(folder)


def _events(run: Run, folder: str | None, done: Ingested) -> DataFrame:
    """Let the folder be part of the table, or another without what was read before."""
    if folder is None:
        none = run.warehouse.spark.createDataFrame([], EVENTS)
        return none if run.has("events") else run.extend("events", none)
    read = run.warehouse.read([folder], EVENTS).drop("run")
    before = run.known("numbers", NUMBERS) if run.has("numbers") else None
    fresh = run.extend("numbers", numbers(read))
    good = fresh.agg(F.sum("read")).collect()[0][0]
    again = suspects(fresh, before)
    if again.isEmpty():
        new, done.events = run.adopt("events", folder, EVENTS), good
    else:
        new = run.extend("events", distinct(read, again))
        run.remove(folder)
        done.events = new.count()
    done.lines, done.duplicates = done.lines + good, good - done.events
    return new


def _silver(run: Run, new: DataFrame, say: Callable[[str], None]) -> None:
    """Bring the tables up to date that are made of events."""
    say("writing attempts")
    renew_attempts(run, new)
    say("writing processes and backlogs")
    renew_by_process(run, new)
    lives = run.known("lives", run.schema("lives"))
    torn = run.known("quarantine", QUARANTINE)
    run.replace("processes", processes_of(lives, torn))


@contextmanager
def _open_copies(run: Run, logs: Path, wanted: bool) -> Iterator[Path | None]:
    """Yield a folder with the open files under names that Spark reads; None if not wanted."""
    if not wanted:
        yield None
        return
    folder = run.scratch("open")
    for number, path in enumerate(sorted(logs.rglob(_OPEN))):
        copy = folder / f"{number}-{path.name.removeprefix('_')}"
        copy.write_bytes(path.read_bytes())
    yield folder
    shutil.rmtree(folder)
