"""A driver that is killed while it ingests: what was there stays, and what it left goes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from celery_fair.pipeline.ingest import ingest
from celery_fair.pipeline.storage.pointer import read_pointer
from celery_fair.pipeline.warehouse import Warehouse
from tests.documentation.commands import ROOT
from tests.pipeline.killed import STEPS
from tests.pipeline.planted import Logs, Process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# One of them is as good as another for what is left and goes; each is another moment.
WIDE = STEPS.keys() - {"drafted"}


def left(warehouse: Warehouse) -> set[str]:
    """What is in a warehouse besides the present version, and is no folder of a table."""
    root = warehouse.root
    hidden = {path.name for path in root.glob(".*")}
    runs = {f"{path.parent.name}/{path.name}" for path in root.glob("*/run=*")}
    return hidden | runs - read_pointer(root).folders


def ids(warehouse: Warehouse) -> set[str]:
    return {row["id"] for row in warehouse.table("attempts").collect()}


@pytest.mark.parametrize(
    "step",
    [pytest.param(step, marks=pytest.mark.wide if step in WIDE else ()) for step in STEPS],
)
def test_a_driver_is_killed(spark: SparkSession, logs: Logs, tmp_path: Path, step: str) -> None:
    """What was there can be read; the next run takes in all there is, and clears up."""
    warehouse = Warehouse(spark, tmp_path / "warehouse")

    def plant(name: str) -> None:
        process = Process().boots(0)
        process.runs(name, 1)
        logs.plant(process)

    plant("a")
    ingest(warehouse, logs.folder)
    before = read_pointer(warehouse.root).folders
    plant("b")
    logs.write("_open-x.jsonl", [])
    # Java has the pipe, too, and lives for a moment longer: so what it leaves is there.
    killed = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.killed", step, logs.folder, warehouse.root],
        cwd=ROOT,
        env=os.environ,
        stdout=subprocess.PIPE,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert ids(warehouse) == ({"a", "b"} if step == "published" else {"a"})
    assert any(name.startswith(".held-") for name in left(warehouse))

    plant("c")
    ingest(warehouse, logs.folder)
    assert ids(warehouse) == {"a", "b", "c"}
    rest = left(warehouse)
    if step != "published":  # the version before is kept, which a reader may have just begun with
        assert rest <= before
    assert not any(name.startswith(".") for name in rest)
