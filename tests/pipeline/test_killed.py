"""A driver that is killed while it ingests: what was there stays, and what it left goes."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from celery_fair.pipeline import ingest as ingesting
from celery_fair.pipeline.ingest import ingest
from celery_fair.pipeline.warehouse import Warehouse, read_pointer
from tests.pipeline.planted import Logs, Process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.wide

STEPS = {
    "begun": (Warehouse, "split"),
    "staged": (Path, "rename"),
    "silver": (ingesting, "renew_by_process"),
    "settled": (os, "fsync"),
    "drafted": (Path, "replace"),
    "published": (Warehouse, "discard"),
}
"""What it was about to do."""


def left(warehouse: Warehouse) -> set[str]:
    """What is in a warehouse besides the present version, and is no folder of a table."""
    root = warehouse.root
    hidden = {path.name for path in root.glob(".*")} - {".used", ".ingest"}
    runs = {f"{path.parent.name}/{path.name}" for path in root.glob("*/run=*")}
    return hidden | runs - read_pointer(root).folders


def ids(warehouse: Warehouse) -> set[str]:
    present = Warehouse(warehouse.spark, warehouse.root)
    return {row["id"] for row in present.table("attempts").collect()}


@pytest.mark.parametrize("step", STEPS)
def test_a_driver_is_killed(spark: SparkSession, logs: Logs, version_1: Path, step: str) -> None:
    """What was there can be read; the next run takes in all there is, and clears up."""
    warehouse = Warehouse(spark, version_1)

    def plant(name: str) -> None:
        process = Process().boots(0)
        process.runs(name, 1)
        logs.plant(process)

    before = read_pointer(warehouse.root).folders
    plant("b")
    logs.write("_open-x.jsonl", [])
    pid = os.fork()
    if not pid:  # the driver, with the same Java
        setattr(*STEPS[step], lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        with suppress(BaseException):
            ingest(Warehouse(spark, warehouse.root), logs.folder, include_open=True)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert ids(warehouse) == ({"a", "b"} if step == "published" else {"a"})
    assert any(name.startswith(".scratch-") for name in left(warehouse))

    plant("c")
    ingest(warehouse, logs.folder)
    assert ids(warehouse) == {"a", "b", "c"}
    rest = left(warehouse)
    if step != "published":  # the version before is kept until the next run
        assert rest <= before
    assert not any(name.startswith(".") for name in rest)
