"""From logs to a warehouse: reads the new files and brings silver up to date.

Of files only new ones are read, see `celery_fair.pipeline.reading`. Events that are read twice
nevertheless, from a copy or from a file that was still open, are recognised by their ids. Of silver
only that is made again which new events touch, see `celery_fair.pipeline.silver.renewal`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from celery_fair.eventlog.packer import PACKED
from celery_fair.pipeline.bronze import EVENTS, QUARANTINE
from celery_fair.pipeline.errors import PipelineError
from celery_fair.pipeline.numbering import NUMBERS, distinct, numbers, suspects
from celery_fair.pipeline.reading import check, open_copies, sealed_files, staged
from celery_fair.pipeline.silver.clocks import is_true
from celery_fair.pipeline.silver.processes import processes_of
from celery_fair.pipeline.silver.renewal import renew_attempts, renew_by_process
from celery_fair.pipeline.silver.unread import packed, path_of, renew_unread
from celery_fair.pipeline.warehouse import Warehouse

_TRIES = 3
_SHOWN = 10
_GONE = ("FileNotFoundException", "FILE_NOT_EXIST", "PATH_NOT_FOUND", "there is none")
_GROWING = ("files", "numbers", "events", "attempts")
"""The tables that get a folder more with each run."""

Say = Callable[[str], None]


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


def ingest(
    warehouse: Warehouse,
    logs: Path,
    include_open: bool = False,
    say: Say = lambda _: None,
) -> Ingested:
    """Read what is new in the logs; publish the next version if there is anything.

    Arguments:
        logs: their folder.
        include_open: read the files too that are being written; their torn last lines are ignored.
        say: is told what is being done.

    Raises:
        PipelineError: that is no folder, or an empty one.
    """
    logs = logs.absolute()
    check(logs)
    with warehouse.ingesting(say):
        tries = _TRIES
        while True:
            tries -= 1
            try:
                with warehouse.publishing():
                    done = _Ingest(warehouse, logs, include_open, say).ingested()
            except Exception as exc:  # Spark's errors have no common class; others are re-raised
                if not tries or not _is_gone(str(exc)):
                    raise
                say("a file is gone that was there a moment ago, as if it was packed: once more")
            else:
                done.version = warehouse.pointer.version
                return done


def _is_gone(said: str) -> bool:
    """Whether a file is; of one that may not be read Java says so, too, and then why."""
    return any(word in said for word in _GONE) and "Permission denied" not in said


class _Ingest:
    """One try."""

    def __init__(self, warehouse: Warehouse, logs: Path, include_open: bool, say: Say) -> None:
        self._warehouse, self._logs, self._say = warehouse, logs, say
        self._spark = warehouse.spark
        self._copies = open_copies(warehouse, logs) if include_open else []
        self._done = Ingested(open_files=len(self._copies))

    def ingested(self) -> Ingested:
        warehouse, done = self._warehouse, self._done
        self._say(f"listing the files below {self._logs}")
        found = sealed_files(self._spark, self._logs)
        known = warehouse.known("files", found.schema)
        files = warehouse.extend(
            "files", found.join(known, ["file", "size", "changed"], "left_anti")
        )
        sizes = _sizes(files)
        done.files = len(sizes)
        if any(path.endswith(PACKED) for path in sizes):
            files = files.join(packed(known), "file", "left_anti")
            sizes = _sizes(files)
        if not done.files and not done.open_files:
            if known.isEmpty():
                raise PipelineError(
                    f"{self._logs} has no sealed file yet, or only empty ones; what workers are"
                    " writing is read with --include-open"
                )
            warehouse.discard()
            return done
        self._say(f"reading {done.files} new files and {done.open_files} open ones")
        folders, done.broken = staged(warehouse, list(sizes), self._copies, self._say)
        self._quarantine(folders.get("quarantine"), files)
        self._silver(self._events(folders.get("events")))
        for table in filter(warehouse.has, _GROWING):
            warehouse.compact(table)
        return done

    # Bronze -----------------------------------------------------------------------

    def _quarantine(self, folder: str | None, files: DataFrame) -> None:
        warehouse, done = self._warehouse, self._done
        before = warehouse.known("quarantine", QUARANTINE)
        if folder is None and warehouse.has("quarantine") and before.isEmpty():
            return
        bad = self._spark.createDataFrame([], QUARANTINE)
        if folder is not None:
            written = warehouse.read([folder], "file string, text string, wrong string")
            bad = written.select("file", "text", F.col("wrong").alias("reason"))
            counts = bad.groupBy("reason").count().collect()
            done.quarantined = {row["reason"]: row["count"] for row in counts}
            done.lines += sum(done.quarantined.values()) - len(done.broken)
        # A file that has changed since is read whole: what it had in quarantine is judged anew.
        again = files.select(F.col("file").alias("again"))
        before = before.join(again, path_of("file") == F.col("again"), "left_anti")
        warehouse.replace("quarantine", before.select(*bad.columns).unionByName(bad))

    def _events(self, folder: str | None) -> DataFrame:
        """Let the folder be part of the table, or another without what was read before.

        Returns:
            The new events.
        """
        warehouse, done = self._warehouse, self._done
        if folder is None:
            none = self._spark.createDataFrame([], EVENTS)
            return none if warehouse.has("events") else warehouse.extend("events", none)
        read = warehouse.read([folder], EVENTS).drop("run")
        before = warehouse.known("numbers", NUMBERS)
        fresh = warehouse.extend("numbers", numbers(read))
        good = fresh.agg(F.sum("read")).collect()[0][0]
        again = suspects(fresh, before)
        if again.isEmpty():
            new, done.events = warehouse.adopt("events", folder, EVENTS), good
        else:
            new = warehouse.extend("events", distinct(read, again))
            done.events = new.count()
        done.lines, done.duplicates = done.lines + good, good - done.events
        return new

    # Silver -----------------------------------------------------------------------

    def _silver(self, new: DataFrame) -> None:
        """Bring the tables up to date that are made of events."""
        warehouse, done = self._warehouse, self._done
        self._say("writing attempts")
        renew_attempts(warehouse, new)
        self._say("writing processes and backlogs")
        renew_by_process(warehouse, new)
        torn = warehouse.table("quarantine")
        processes = warehouse.replace("processes", processes_of(warehouse.table("lives"), torn))
        done.unset_clocks = _unset_clocks(processes)
        renew_unread(warehouse, self._logs)


def _sizes(files: DataFrame) -> dict[str, int]:
    return {row["file"]: row["size"] for row in files.select("file", "size").collect()}


def _unset_clocks(processes: DataFrame) -> list[str]:
    """Some of the nodes that have written times of a clock that was not set, or is ahead."""
    wrong = ~(is_true("first_at") & is_true("last_at"))
    nodes = processes.where(wrong).select("node").distinct()
    return [row["node"] for row in nodes.orderBy("node").limit(_SHOWN).collect()]
