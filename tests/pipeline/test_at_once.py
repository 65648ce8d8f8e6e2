"""Several ingest into one warehouse at once: one waits, and then it has everything once."""

from __future__ import annotations

import fcntl
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import pytest

from celery_fair.pipeline.ingest import Ingested, ingest
from celery_fair.pipeline.warehouse import Warehouse, read_pointer
from tests.documentation.commands import ROOT
from tests.pipeline.planted import Logs, Process
from tests.waiting import wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = 12


def plant(logs: Logs) -> None:
    processes = [Process().boots(0) for _ in range(3)]
    for process in processes:
        process.runs(f"of {process.boot}", 1)
        process.ends(9)
    assert sum(len(process.records) for process in processes) == EVENTS
    logs.plant(*processes)


def start(logs: Logs, root: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "celery_fair", "pipeline", "ingest", logs.folder, root]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=ROOT, text=True, **pipes)


def check(warehouse: Warehouse) -> None:
    """It has everything once, in the first version, and nothing is left of who waited."""
    assert warehouse.table("events").count() == EVENTS
    (row,) = warehouse.table("attempts").selectExpr("count(*) as n", "sum(starts) as s").collect()
    assert (row["n"], row["s"]) == (3, 3)
    present = read_pointer(warehouse.root)
    assert present.version == 1
    runs = warehouse.root.glob("*/run=*")
    assert {f"{path.parent.name}/{path.name}" for path in runs} == present.folders
    assert {path.name for path in warehouse.root.glob(".*")} == {".used", ".ingest"}


def test_another_ingests_meanwhile(spark: SparkSession, logs: Logs, tmp_path: Path) -> None:
    """Who is second waits, and finds nothing left to read."""
    plant(logs)
    warehouse = Warehouse(spark, tmp_path / "warehouse")
    waits = Event()
    others: list[str] = []

    def other() -> Ingested:
        def say(text: str) -> None:
            others.append(text)
            waits.set()

        return ingest(Warehouse(spark, warehouse.root), logs.folder, say=say)

    with ThreadPoolExecutor(1) as threads:

        def say(text: str) -> None:
            if text == "writing processes and backlogs":
                running.append(threads.submit(other))
                assert waits.wait(60)

        running: list[object] = []
        done = ingest(warehouse, logs.folder, say=say)
        (second,) = (each.result() for each in running)  # type: ignore[attr-defined]
    assert (done.version, done.events) == (1, EVENTS)
    assert (second.version, second.files, second.events) == (1, 0, 0)
    assert others[0] == f"waiting for another run that ingests into {warehouse.root}"
    check(warehouse)


@pytest.mark.wide
def test_two_processes_at_once(spark: SparkSession, logs: Logs, tmp_path: Path) -> None:
    """Neither may begin before both want to."""
    plant(logs)
    root = tmp_path / "warehouse"
    root.mkdir()
    with (root / ".ingest").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        both = [start(logs, root) for _ in range(2)]
        wait_for(lambda: {process.pid for process in both} <= waiting(), 120, "both to begin")
    said = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    first, second = sorted((out for out, _ in said), key=lambda out: "version 1: 0" in out)
    assert first.startswith(f"version 1: {EVENTS} new events")
    assert second.startswith("version 1: 0 new events from 0 lines of 0 new files")
    check(Warehouse(spark, root))


def waiting() -> set[int]:
    """The processes that wait for a lock."""
    locks = Path("/proc/locks").read_text()
    return {int(pid) for pid in re.findall(r"-> FLOCK +ADVISORY +WRITE +(\d+)", locks)}
