"""A disk that is full: what was there can be read, and all is well when there is room again."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from celery_fair.pipeline.warehouse import Warehouse, read_pointer
from tests.pipeline.planted import Logs, Process
from tests.pipeline.test_commands import run
from tests.pipeline.test_killed import ids, left

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = 4096
ROOM = 20
"""Pages that are left, for some of the tables."""


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Yield a folder with a file system of its own, of two megabytes."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if os.getuid() or subprocess.run(mount, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path) -> Path:
    """Leave no more than that; return what takes all others."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(PAGE))
        except OSError:
            os.truncate(ballast, ballast.stat().st_size - ROOM * PAGE)
    return ballast


@pytest.mark.wide
def test_a_disk_that_is_full(
    spark: SparkSession, logs: Logs, version_1: Path, tmp_path: Path
) -> None:
    """When some of the tables have been written."""
    with small_disk(tmp_path / "disk") as disk:
        warehouse = Warehouse(spark, Path(shutil.copytree(version_1, disk / "warehouse")))

        def ingest() -> str:
            done = run("ingest", logs.folder, warehouse.root, "--quiet")
            return done.stderr if done.exit_code else done.stdout

        there = read_pointer(warehouse.root)
        process = Process().boots(0)
        process.runs("b", 1)
        logs.plant(process)
        ballast = fill(disk)
        (said,) = ingest().splitlines()
        assert said.startswith("Error: ")
        assert "No space left on device" in said
        assert said.endswith("the disk is full: make room, or name another folder")
        assert ids(warehouse) == {"a"}
        ballast.unlink()
        assert read_pointer(warehouse.root) == there
        assert not left(warehouse)
        assert ingest().startswith("version 2: 3 new events")
        assert ids(warehouse) == {"a", "b"}
