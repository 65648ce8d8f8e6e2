"""Packs and compressed logs are read, and not read again when all that is in them was."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from celery_fair.eventlog.log_file import FileName
from celery_fair.eventlog.packer import PACKED, pack
from celery_fair.pipeline.ingest import ingest
from celery_fair.pipeline.warehouse import Warehouse
from tests.pipeline.planted import T0, Logs, Process
from tests.pipeline.staged import bronze, processes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def plant(logs: Logs, process: Process, number: int) -> Path:
    name = str(FileName(int(T0) + number, process.node, process.pid, process.boot, number))
    path = logs.write(f"host/{name}", process.lines)
    process.records.clear()
    os.utime(path, (T0, T0))
    return path


@pytest.mark.wide
def test_packed_before_and_after(spark: SparkSession, logs: Logs, tmp_path: Path) -> None:
    warehouse = Warehouse(spark, tmp_path / "warehouse")
    process = Process(node="celery@é").boots(0)
    for number in range(3):
        process.runs(f"a{number}", 1 + number)
        plant(logs, process, number)
    first = ingest(warehouse, logs.folder)
    assert (first.files, first.events) == (3, 7)

    assert pack(logs.folder / "host") == 3
    packed = ingest(warehouse, logs.folder)
    assert (packed.files, packed.lines, packed.events) == (1, 0, 0)

    process.runs("b", 9)
    plant(logs, process, 3)
    pack(logs.folder / "host")
    (logs.folder / "more.jsonl.gz").write_bytes(
        gzip.compress("".join(f"{line}\n" for line in Process().boots(0).lines).encode())
    )
    later = ingest(warehouse, logs.folder)
    assert (later.files, later.events, later.duplicates) == (2, 3, 0)
    fresh = Warehouse(spark, tmp_path / "fresh")
    assert ingest(fresh, logs.folder).events == 10
    assert len(list(logs.folder.rglob(f"*{PACKED}"))) == 2
    assert fresh.table("attempts").count() == 4


@pytest.mark.wide
def test_packed_while_it_is_being_read(spark: SparkSession, logs: Logs, tmp_path: Path) -> None:
    process = Process().boots(0)
    plant(logs, process, 0)
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        if text.startswith("reading") and not pack(logs.folder / "host"):
            assert said.count(text) > 1

    done = ingest(Warehouse(spark, tmp_path / "warehouse"), logs.folder, say=say)
    assert (done.version, done.files, done.events) == (1, 1, 1)
    assert any("once more" in text for text in said)


def test_what_a_pack_does_not_tell(spark: SparkSession) -> None:
    """Whose a line is that is no record, its text says; which records were in one file, nothing."""
    whole, odd, killed = Process().boots(0), Process().boots(0), Process().boots(0)
    for process in (whole, odd):
        process.ends(9)
    killed.dies(9, None)
    events = bronze(spark, [whole, odd, killed])
    line = json.dumps({"boot": odd.boot, "at": "never"})
    for file, cut in ((f"1-n-7-{odd.boot}-0.jsonl.gz", False), (f"/logs/3600-00{PACKED}", True)):
        bad = spark.createDataFrame(
            [(file, line, "wrong")], "file string, text string, reason string"
        )
        found = processes(events.withColumn("file", F.lit(file)), bad).collect()
        rows = {row["boot"]: row for row in found}
        assert not rows[odd.boot]["complete"]
        assert rows[whole.boot]["complete"]
        assert {boot: row["cut"] for boot, row in rows.items() if row["cut"]} == (
            {killed.boot: True} if cut else {}
        )
