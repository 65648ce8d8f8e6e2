"""From logs to a warehouse: reads the new files and brings silver up to date.

A file is recognised by its path, size and time of change; a sealed file never changes, so a second
run reads nothing. Events that are read twice nevertheless, from a copy or from a file that was
still open, are recognised by their ids.
"""

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from celery_fair.pipeline.bronze import events, new_events, parsed, quarantine
from celery_fair.pipeline.errors import PipelineError
from celery_fair.pipeline.silver.attempts import attempts
from celery_fair.pipeline.silver.backlog import backlog
from celery_fair.pipeline.silver.gaps import gaps
from celery_fair.pipeline.silver.processes import processes
from celery_fair.pipeline.silver.settings import settings
from celery_fair.pipeline.silver.unread import unread
from celery_fair.pipeline.warehouse import Run, Warehouse

__all__ = ["Ingested", "ingest"]

_OPEN = "_open-*.jsonl"
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
        PipelineError: `logs` is no folder, or another run has published meanwhile.
    """
    if not logs.is_dir():
        raise PipelineError(
            f"{logs.absolute()} is no folder: give the one that fair_event_log names"
        )
    run = warehouse.begin()
    try:
        with _open_copies(warehouse.root, logs, include_open) as copies:
            return _ingest(run, logs.absolute(), copies, say)
    except BaseException:  # whatever ends it, an interrupt too, leaves nothing behind; re-raised
        run.discard()
        raise


def _ingest(run: Run, logs: Path, copies: Path | None, say: Callable[[str], None]) -> Ingested:
    spark = run.warehouse.spark
    say(f"listing the files below {logs}")
    found = _listed(spark, logs)
    known = run.known("files", found.schema)
    fresh = found.join(known, ["file", "size", "changed"], "left_anti")
    files = run.extend("files", fresh)
    done = Ingested(version=run.version, files=files.count())
    if copies is not None:
        done.open_files = len(list(copies.iterdir()))
    if not done.files and not done.open_files:
        run.discard()
        done.version -= 1
        return done
    run.replace("unread", unread(spark, logs, run.known("files", found.schema)))
    say(f"reading {done.files} new files and {done.open_files} open ones")
    staged = run.replace("staged", _staged(spark, files, copies))
    every, torn = _bronze(run, staged, done, say)
    if done.events or done.quarantined or not run.has("attempts"):
        _silver(run, every, torn, say)
    run.drop("staged")
    run.publish()
    return done


def _listed(spark: SparkSession, logs: Path) -> DataFrame:
    """Every sealed file; Spark leaves out those whose names begin with an underscore."""
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", True)
    files = reader.option("pathGlobFilter", "*.jsonl").load(str(logs))
    return files.selectExpr("path as file", "length as size", "modificationTime as changed")


def _staged(spark: SparkSession, files: DataFrame, copies: Path | None) -> DataFrame:
    paths = [_UNGLOBBED.sub(r"\\\1", row["file"]) for row in files.collect()]
    staged = parsed(_lines(spark, paths))
    if copies is not None:
        of_open = parsed(_lines(spark, [str(copies)]))
        staged = staged.unionByName(of_open.where("reason is null"))
    return staged


def _lines(spark: SparkSession, paths: list[str]) -> DataFrame:
    reader = spark.read.option("recursiveFileLookup", True)
    if not paths:
        return spark.createDataFrame([], "value string, file string")
    lines = reader.text(paths, lineSep="\n")
    return lines.select("value", F.col("_metadata.file_path").alias("file"))


def _bronze(
    run: Run, staged: DataFrame, done: Ingested, say: Callable[[str], None]
) -> tuple[DataFrame, DataFrame]:
    """Write the bronze tables; return all events, and all that is in quarantine."""
    reasons = {row["reason"]: row["count"] for row in staged.groupBy("reason").count().collect()}
    good = reasons.pop(None, 0)
    say(f"writing events: {good} lines are records, {sum(reasons.values())} are not")
    found = events(staged)
    added = run.extend("events", new_events(found, run.known("events", found.schema)), "date")
    bad = quarantine(staged)
    files = bad.select("file").distinct()
    # A file that has grown since is read whole: what it had in quarantine is judged anew.
    before = run.known("quarantine", bad.schema).join(files, "file", "left_anti")
    torn = run.replace("quarantine", before.select(*bad.columns).unionByName(bad))
    done.lines, done.quarantined = good + sum(reasons.values()), reasons
    done.events = added.count()
    done.duplicates = good - done.events
    every = run.known("events", found.schema)
    # What a version before this one has written may lack a field.
    new = (field for field in found.schema.fields if field.name not in every.columns)
    added_fields = (F.lit(None).cast(each.dataType).alias(each.name) for each in new)
    return every.select("*", *added_fields), torn


def _silver(run: Run, every: DataFrame, torn: DataFrame, say: Callable[[str], None]) -> None:
    made: dict[str, Callable[[DataFrame], DataFrame]] = {
        "attempts": attempts,
        "backlog": backlog,
        "processes": partial(processes, quarantine=torn),
        "settings": settings,
    }
    written = {}
    for name, make in made.items():
        say(f"writing {name}")
        written[name] = run.replace(name, make(every))
    run.replace("gaps", gaps(every, written["processes"]))


@contextmanager
def _open_copies(root: Path, logs: Path, wanted: bool) -> Iterator[Path | None]:
    """Yield a folder with the open files under names that Spark reads; None if not wanted."""
    if not wanted:
        yield None
        return
    with tempfile.TemporaryDirectory(dir=root, prefix="open-") as folder:
        for number, path in enumerate(sorted(logs.rglob(_OPEN))):
            copy = Path(folder, f"{number}-{path.name.removeprefix('_')}")
            copy.write_bytes(path.read_bytes())
        yield Path(folder)
