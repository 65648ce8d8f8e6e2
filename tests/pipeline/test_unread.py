"""Logs of which a part is still being written: what may be in there proves nothing."""

from __future__ import annotations

from pathlib import Path
from time import time
from typing import TYPE_CHECKING

import pytest

from celery_fair.eventlog.log_file import OPEN, FileName, sealed_name
from celery_fair.pipeline.ingest import ingest
from celery_fair.pipeline.publish import publish_audit
from celery_fair.pipeline.silver.unread import UNREAD, files_there, unread
from celery_fair.pipeline.warehouse import Warehouse
from tests.pipeline.planted import T0, Logs, Process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_names_of_files() -> None:
    name = sealed_name("celery@my-host x", 7, "ab12", 3)
    parsed = FileName.parse(name)
    assert parsed is not None
    assert parsed[1:] == ("celery@my_host_x", 7, "ab12", 3)
    assert str(parsed) == name
    assert FileName.parse(f"{OPEN}{name}") == parsed
    for other in ("copy.jsonl", f"{name}.gz", f"_new-{name}", f"x{name}"):
        assert FileName.parse(other) is None


def file_of(process: Process, since: float, number: int = 0) -> str:
    return str(FileName(int(T0 + since), "celery@n", process.pid, process.boot, number))


def test_files_that_were_not_read(spark: SparkSession, logs: Logs) -> None:
    busy, done, headless = Process(), Process(), Process()
    logs.write(f"host/{file_of(done, 1)}", ["read"])
    logs.write(f"host/{OPEN}{file_of(done, 61, number=1)}", [])
    logs.write(f"host/{OPEN}{file_of(busy, 5)}", [])
    logs.write(f"other/{file_of(headless, 70, number=2)}", ["its first files were deleted"])
    logs.write("copy.jsonl", ["not a worker's"])
    columns = "pid bigint, boot string"
    known = spark.createDataFrame([(done.pid, done.boot), (1, headless.boot)], columns)
    before = [
        (7, "gone", T0, None),
        (8, "long gone", None, T0 + 1),
        (done.pid, done.boot, T0, None),
        (headless.pid, headless.boot, T0 + 9, T0 + 1),
    ]
    now = time()
    rows = unread(
        spark,
        files_there(logs.folder),
        known,
        spark.createDataFrame(before, UNREAD),
    ).collect()
    ends = {row["boot"]: row["until"] for row in rows}
    assert now <= ends.pop("gone") <= time()  # by then there was no file of it
    assert ends == {"long gone": T0 + 1, busy.boot: None, headless.boot: None}
    assert {(row["pid"], row["boot"]): row["since"] for row in rows} == {
        (7, "gone"): T0,  # it was there once
        (8, "long gone"): None,
        (busy.pid, busy.boot): T0 + 5,
        (headless.pid, headless.boot): T0 + 9,
    }


@pytest.mark.wide
def test_process_of_which_nothing_was_read(spark: SparkSession, logs: Logs, tmp_path: Path) -> None:
    rejecter = Process().boots(0)
    rejecter.rejects("of that time", 50, published=10)
    rejecter.rejects("long before", 4, published=2)
    rejecter.ends(60)
    logs.write(file_of(rejecter, 0), rejecter.lines)
    busy = Process().boots(20)  # also by another host's clock
    busy.starts("of that time", 30)
    logs.write(f"{OPEN}{file_of(busy, 20)}", busy.lines)
    late = Process().boots(58)
    logs.write(f"{OPEN}{file_of(late, 58)}", late.lines)

    warehouse = Warehouse(spark, tmp_path / "warehouse")
    ingest(warehouse, logs.folder)
    rows = publish_audit(warehouse, lambda _: None).collect()
    assert {row["id"]: row["verdict"] for row in rows} == {
        "of that time": "UNKNOWN",
        "long before": "REPLAYABLE",
    }
