"""What Java says is told in one line, with its cause and what to do."""

from __future__ import annotations

import errno
import logging
import os
import sys
from pathlib import Path
from shutil import rmtree
from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from celery_fair.cli.pipeline.context import _cause, _work
from celery_fair.pipeline.errors import root_cause
from celery_fair.pipeline.ingest import _is_gone
from celery_fair.pipeline.session import Work, _for, _java_says, work_below

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OPTIONS = "spark.driver.defaultJavaOptions"

FULL = """An error occurred while calling o123.parquet.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2844)
Caused by: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows.
Caused by: java.io.IOException: No space left on device
\t... 12 more
"""


@pytest.mark.wide
def test_a_broken_file(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "part.parquet").write_bytes(b"garbage" * 10)
    with pytest.raises(Exception, match="parquet") as found:
        spark.read.schema("a string").parquet(str(tmp_path)).collect()
    told = root_cause(found.value)
    assert "part.parquet is not a Parquet file" in told
    assert told.endswith("; a file of the warehouse is broken: ingest the logs into a new folder")
    assert "\n" not in told


@pytest.mark.wide
def test_a_full_disk() -> None:
    told = "No space left on device; the disk is full: make room, or name another folder"
    assert root_cause(RuntimeError(FULL)) == f"IOException: {told}"
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "warehouse/current.json")
    assert root_cause(full).endswith("the disk is full: make room, or name another folder")


CUT = """An error occurred while calling o568.parquet.
: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file \
file:///logs/cut%20it.jsonl.gz.  SQLSTATE: KD001
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotReadFilesError(QueryExecutionErrors)
Caused by: java.io.EOFException: Unexpected end of input stream
"""
REFUSED = """An error occurred while calling o568.parquet.
: org.apache.spark.SparkException: [FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while \
reading file file:///logs/a.jsonl. File does not exist. It is possible the files have been updated.
Caused by: java.io.FileNotFoundException: /logs/a.jsonl (Permission denied)
"""


@pytest.mark.wide
def test_a_file_that_is_cut_short() -> None:
    assert root_cause(RuntimeError(CUT)) == (
        "EOFException: Unexpected end of input stream, in /logs/cut it.jsonl.gz;"
        " it is cut short, or not what its name says: copy it again, or take it away"
    )


@pytest.mark.wide
def test_a_file_that_may_not_be_read() -> None:
    """It is not taken for one that is gone, and sought again."""
    assert root_cause(RuntimeError(REFUSED)) == (
        "FileNotFoundException: /logs/a.jsonl (Permission denied);"
        " let this user read it, and write into the warehouse"
    )
    assert not _is_gone(REFUSED)
    assert _is_gone(REFUSED.replace("Permission denied", "No such file or directory"))


@pytest.mark.wide
def test_no_memory() -> None:
    told = "An error occurred while calling o1.collect.\n: java.lang.OutOfMemoryError: Java heap"
    assert root_cause(RuntimeError(told)).endswith("give more with --driver-memory")


def test_an_error_that_says_nothing() -> None:
    assert root_cause(RuntimeError()) == "RuntimeError"
    assert root_cause(RuntimeError("one\ntwo")) == "one"


def test_how_much_work_there_is(tmp_path: Path) -> None:
    bounds = 4, 9
    assert work_below(tmp_path / "missing", bounds) is Work.LITTLE
    (tmp_path / "a").write_bytes(b"1234")
    (tmp_path / "b").mkdir()
    assert work_below(tmp_path, bounds) is Work.LITTLE
    (tmp_path / "b" / "c").write_bytes(b"56789")
    assert work_below(tmp_path, bounds) is Work.SOME
    (tmp_path / "b" / "d").write_bytes(b"0")
    assert work_below(tmp_path, bounds) is Work.MUCH


def test_work_is_what_is_read(tmp_path: Path) -> None:
    """Below links, too; and what is compressed is ten times as much."""
    logs, elsewhere = tmp_path / "logs", tmp_path / "elsewhere"
    for folder in (logs, elsewhere):
        folder.mkdir()
    (elsewhere / "a.jsonl").write_bytes(b"1234567890")
    (logs / "host").symlink_to(elsewhere)
    (logs / "again").symlink_to(logs)
    assert work_below(logs, (9, 10)) is Work.SOME
    assert work_below(logs, (10, 11)) is Work.LITTLE
    (elsewhere / "a.jsonl").rename(elsewhere / "a.pack.jsonl.gz")
    assert work_below(logs, (9, 99)) is Work.MUCH


def test_what_vanishes_meanwhile_is_no_work(tmp_path: Path) -> None:
    """Other runs remove their folders."""
    over = Event()

    def others() -> None:
        while not over.is_set():
            (tmp_path / "run=1" / "deep").mkdir(parents=True, exist_ok=True)
            rmtree(tmp_path / "run=1")

    thread = Thread(target=others)
    thread.start()
    try:
        for _ in range(2000):
            assert work_below(tmp_path, (1, 1)) is Work.LITTLE
    finally:
        over.set()
        thread.join()


def test_what_the_user_says_to_java_comes_last() -> None:
    """And of Spark's settings it is the user's that count."""
    found = _for(Work.LITTLE, {_OPTIONS: "-Xss4m", "spark.sql.shuffle.partitions": "7"})
    assert found[_OPTIONS].endswith(" -Xss4m")
    assert "-XX:+UseSerialGC" in found[_OPTIONS]
    assert found["spark.sql.shuffle.partitions"] == "7"


def test_memory_that_ran_out_is_told_whatever_else_comes_of_it() -> None:
    """Java may be gone, or have lost a thread: what comes to Python is by chance."""
    gone = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
    assert "Connection refused" in _cause(gone)
    said = _java_says()
    before = said.seek(0, os.SEEK_END)
    said.write('Exception in thread "x" java.lang.OutOfMemoryError: Java heap space\n')
    said.flush()
    try:
        assert _cause(gone).endswith(
            "Java heap space; memory ran out: give more with --driver-memory"
        )
    finally:
        said.truncate(before)


def test_an_error_is_told_once(spark: SparkSession) -> None:
    """PySpark would write it, too, as JSON and with the whole of Java's stack."""
    for name, expression in (("SQL", "1 / (id - id)"), ("DataFrame", F.lit(1) / F.lit(0))):
        written: list[str] = []
        handler = logging.Handler()
        handler.emit = lambda record, all_=written: all_.append(record.getMessage())  # type: ignore[method-assign]
        logger = logging.getLogger(f"{name}QueryContextLogger")
        logger.addHandler(handler)
        try:
            with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
                spark.range(1).select(
                    F.expr(expression) if isinstance(expression, str) else expression
                ).collect()
        finally:
            logger.removeHandler(handler)
        assert not written


def test_what_was_read_is_no_work(tmp_path: Path) -> None:
    """However old what has come since was when it was copied."""
    (tmp_path / "a").write_bytes(b"1234")
    come = (tmp_path / "a").stat().st_ctime
    assert work_below(tmp_path, (0, 3), since=come) is Work.LITTLE
    os.utime(tmp_path / "a", (0, 0))
    assert work_below(tmp_path, (0, 3), since=come - 1) is Work.MUCH


def test_a_large_log_that_may_be_read_is_no_little_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be another folder than that of the last ingest."""
    monkeypatch.setattr("celery_fair.pipeline.session.LOG", (2, 3))
    logs, warehouse = tmp_path / "logs", tmp_path / "warehouse"
    logs.mkdir()
    assert _work(warehouse, logs) is Work.LITTLE
    warehouse.mkdir()
    (warehouse / "part").write_bytes(b"1234")
    monkeypatch.setattr("celery_fair.pipeline.session.WAREHOUSE", (2, 3))
    assert _work(warehouse, logs) is Work.SOME  # of which little is looked at
    assert _work(warehouse, None) is Work.MUCH
    (logs / "a").write_bytes(b"1234")
    assert _work(warehouse, logs) is Work.MUCH
    run = warehouse / "files" / "run=000001-abcdef"
    run.mkdir(parents=True)
    come = (logs / "a").stat().st_ctime
    os.utime(run, (come + 1, come + 1))
    assert _work(warehouse, logs) is Work.SOME
    os.utime(run, (come - 1, come - 1))
    assert _work(warehouse, logs) is Work.MUCH


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(("module", "written"), [("py4j.java_gateway", False), (__name__, True)])
def test_what_py4j_tells_at_an_interrupt_is_not_written(module: str, written: bool) -> None:
    """It is what Java was asked for, with Python's stack."""
    place = str(sys.modules[module].__file__)
    record = logging.LogRecord("root", logging.ERROR, place, 1, "asked", (), None)
    assert bool(logging.getLogger().filter(record)) is written
