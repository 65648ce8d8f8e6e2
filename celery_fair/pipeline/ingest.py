"""From logs to a warehouse: reads the new files and brings silver up to date.

Of files only new ones are read, see `celery_fair.pipeline.reading`. Events that are read twice
nevertheless, from a copy or from a file that was still open, are recognised by their ids. Of silver
only that is made again which new events touch, see `celery_fair.pipeline.silver.renewal`.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from celery_fair.eventlog.packer import PACKED
from celery_fair.pipeline.broken_files import broken, is_broken, is_compressed, reads
from celery_fair.pipeline.bronze import EVENTS, QUARANTINE
from celery_fair.pipeline.errors import OvertakenError, PipelineError
from celery_fair.pipeline.numbering import CLASH, NUMBERS, clashes, distinct, numbers, suspects
from celery_fair.pipeline.progress import Show, told
from celery_fair.pipeline.reading import (
    Copies,
    check,
    nothing_in,
    open_copies,
    sealed_files,
    split,
)
from celery_fair.pipeline.silver.clocks import is_true
from celery_fair.pipeline.silver.processes import processes_of
from celery_fair.pipeline.silver.renewal import renew_attempts, renew_by_process
from celery_fair.pipeline.silver.unread import UNREAD, files_there, packed, unread
from celery_fair.pipeline.silver.unreadable import path_of, unlisted, unreadable, without_process
from celery_fair.pipeline.storage import store_at
from celery_fair.pipeline.storage.store import Store
from celery_fair.pipeline.warehouse import Run, Warehouse

__all__ = ["Ingested", "ingest"]

_TRIES = 3
_SHOWN = 10
_GONE = ("FileNotFoundException", "FILE_NOT_EXIST", "PATH_NOT_FOUND", "there is none")
_GROWING = ("files", "numbers", "events", "attempts")
"""The tables that get a folder more with each run."""


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
    broken: list[str] = field(default_factory=list)
    unset_clocks: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def ingest(
    warehouse: Warehouse,
    where: Path | str | Store,
    include_open: bool = False,
    say: Callable[[str], None] = lambda _: None,
    show: Show | None = None,
) -> Ingested:
    """Read what is new in the logs; publish the next version if there is anything.

    Arguments:
        where: their folder: a path, a URI, or its store.
        include_open: read the files too that are being written; their torn last lines are ignored.
        say: is told what is being done.
        show: is shown how much has been read, see `celery_fair.pipeline.progress`.

    Raises:
        PipelineError: that is no folder, or an empty one, or others published again and again.
    """
    logs = store_at(where, warehouse.spark)
    check(logs)
    for _ in range(_TRIES - 1):
        try:
            return _tried(warehouse, logs, include_open, say, show)
        except OvertakenError:
            say("another run has published what it read meanwhile: once more")
        except Exception as exc:  # Spark's errors have no common class; others are re-raised
            if not _is_gone(str(exc)):
                raise
            say("a file is gone that was there a moment ago, and was packed, it seems: once more")
    return _tried(warehouse, logs, include_open, say, show)


def _is_gone(said: str) -> bool:
    """Whether a file is; of one that may not be read Java says so, too, and then why."""
    return any(word in said for word in _GONE) and "Permission denied" not in said


def _tried(
    warehouse: Warehouse,
    logs: Store,
    include_open: bool,
    say: Callable[[str], None],
    show: Show | None,
) -> Ingested:
    run = warehouse.begin(make=True)
    try:
        with open_copies(run, logs, include_open) as copies:
            return _ingest(run, logs, copies, say, show)
    except BaseException:  # whatever ends it, an interrupt too, leaves nothing behind; re-raised
        run.discard()
        raise


def _ingest(
    run: Run, logs: Store, copies: Copies | None, say: Callable[[str], None], show: Show | None
) -> Ingested:
    spark = run.warehouse.spark
    say(f"listing the files below {logs.root}")
    found = sealed_files(spark, logs)
    known = run.known("files", found.schema)
    files = run.extend("files", found.join(known, ["file", "size", "changed"], "left_anti"))
    sizes = _sizes(files)
    done = Ingested(version=run.pointer.version, files=len(sizes))
    if any(path.endswith(PACKED) for path in sizes):
        files = files.join(packed(known), "file", "left_anti")
        sizes = _sizes(files)
    done.open_files = copies.files if copies else 0
    if not done.files and not done.open_files:
        if known.isEmpty():
            raise PipelineError(nothing_in(logs))
        run.discard()
        done.version -= 1
        return done
    say(f"reading {done.files} new files and {done.open_files} open ones")
    new = _bronze(run, files, sizes, copies, done, say, show)
    processes = _silver(run, new, say)
    done.unset_clocks = _unset_clocks(processes)
    _note_unread(run, logs, processes, found.schema, bool(done.broken or done.quarantined))
    for table in _GROWING:
        run.compact(table)
    run.publish()
    run.release()
    done.version = run.pointer.version
    return done


def _sizes(files: DataFrame) -> dict[str, int]:
    return {row["file"]: row["size"] for row in files.select("file", "size").collect()}


def _bronze(
    run: Run,
    files: DataFrame,
    sizes: dict[str, int],
    copies: Copies | None,
    done: Ingested,
    say: Callable[[str], None],
    show: Show | None,
) -> DataFrame:
    """Write the bronze tables; return the new events.

    Arguments:
        sizes: of the `files`, by path.
    """
    spark, paths = run.warehouse.spark, list(sizes)
    size = sum(sizes.values()) + (copies.size if copies else 0)
    reading = partial(told, spark, len(sizes) + done.open_files, size, show)
    try:
        with reading():
            folders = split(run, paths, copies, [])
    except Exception as exc:  # Spark's errors have no common class; others are re-raised
        if not is_broken(str(exc)):
            raise
        say("a compressed file is cut short or broken: looking for all that are")
        compressed = sorted(filter(is_compressed, paths))
        done.broken = broken(compressed, lambda some: reads(spark, some))
        with reading():
            folders = split(run, paths, copies, done.broken)
    _quarantine(run, folders.get("quarantine"), files, done)
    return _events(run, folders.get("events"), copies, done)


def _quarantine(run: Run, folder: str | None, files: DataFrame, done: Ingested) -> None:
    before = run.known("quarantine", QUARANTINE)
    if folder is None and run.has("quarantine") and before.isEmpty():
        return
    bad = run.warehouse.spark.createDataFrame([], QUARANTINE)
    if folder is not None:
        written = run.warehouse.read([folder], "file string, text string, wrong string")
        bad = written.select("file", "text", F.col("wrong").alias("reason"))
        counts = bad.groupBy("reason").count().collect()
        done.quarantined = {row["reason"]: row["count"] for row in counts}
        done.lines += sum(done.quarantined.values()) - len(done.broken)
    # A file that has changed since is read whole: what it had in quarantine is judged anew. But
    # an event whose number another record had as well is kept, be the other there again or not.
    again = files.select(F.col("file").alias("again"))
    judged_anew = (path_of("file") == F.col("again")) & (F.col("reason") != CLASH)
    before = before.join(again, judged_anew, "left_anti")
    run.replace("quarantine", before.select(*bad.columns).unionByName(bad))
    if folder is not None:
        run.remove(folder)


def _events(run: Run, folder: str | None, copies: Copies | None, done: Ingested) -> DataFrame:
    """Let the folder be part of the table, or another without what was read before."""
    if folder is None:
        none = run.warehouse.spark.createDataFrame([], EVENTS)
        return none if run.has("events") else run.extend("events", none)
    read = run.warehouse.read([folder], EVENTS).drop("run")
    before = run.known("numbers", NUMBERS) if run.has("numbers") else None
    fresh = run.extend("numbers", numbers(read, copies and copies.folder))
    good = fresh.agg(F.sum("read")).collect()[0][0]
    again = suspects(fresh, before)
    if again.isEmpty():
        new, done.events = run.adopt("events", folder, EVENTS), good
    else:
        odd = _quarantine_clashes(run, clashes(read, again, before, run.known("events", EVENTS)))
        if odd:
            done.quarantined[CLASH] = odd
        new = run.extend("events", distinct(read, again))
        run.remove(folder)
        done.events = new.count()
        good -= odd
    done.lines, done.duplicates = done.lines + good, good - done.events
    return new


def _quarantine_clashes(run: Run, found: DataFrame) -> int:
    """Keep each once, however often its file is read; return how many were found."""
    found = found.localCheckpoint()
    before = run.known("quarantine", QUARANTINE).select("text", "reason")
    run.extend(
        "quarantine", found.join(before, ["text", "reason"], "left_anti").select(*found.columns)
    )
    return found.count()


def _silver(run: Run, new: DataFrame, say: Callable[[str], None]) -> DataFrame:
    """Bring the tables up to date that are made of events; return the processes."""
    say("writing attempts")
    renew_attempts(run, new)
    say("writing processes and backlogs")
    renew_by_process(run, new)
    torn = run.known("quarantine", QUARANTINE)
    return run.replace("processes", processes_of(run.table("lives"), torn))


def _note_unread(
    run: Run, logs: Store, processes: DataFrame, schema: StructType, torn: bool
) -> None:
    """Write down whose logs, and which files, were not read, or not as a whole.

    Arguments:
        schema: of the table of files.
        torn: whether this run has read what is no record.
    """
    spark = run.warehouse.spark
    before = run.known("unread", UNREAD) if run.has("unread") else None
    there = files_there(logs)
    run.replace("unread", unread(spark, there, processes, before))
    odd = without_process(there)
    if odd or torn or run.has("unreadable"):
        files, lines = run.known("files", schema), run.known("quarantine", QUARANTINE)
        found = unreadable(lines, files).unionByName(unlisted(spark, odd, files))
        run.replace("unreadable", found)


def _unset_clocks(processes: DataFrame) -> list[str]:
    """Some of the nodes that have written times of a clock that was not set, or is ahead."""
    wrong = ~(is_true("first_at") & is_true("last_at"))
    nodes = processes.where(wrong).select("node").distinct()
    return [row["node"] for row in nodes.orderBy("node").limit(_SHOWN).collect()]
