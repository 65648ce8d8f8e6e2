"""Compressed logs that are cut or corrupt: what can be read is, and the rest is a doubt."""

from __future__ import annotations

import gzip
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from celery_fair.eventlog.log_file import FileName
from celery_fair.eventlog.packer import PACKED
from celery_fair.pipeline.ingest import ingest
from celery_fair.pipeline.publish import publish_audit
from celery_fair.pipeline.reading import broken, is_broken
from celery_fair.pipeline.silver.unread import BREAKS_OFF, unreadable
from celery_fair.pipeline.warehouse import Warehouse
from tests.pipeline.planted import T0, Logs, Process
from tests.pipeline.staged import Silver, bronze, doubts_of
from tests.pipeline.test_errors import CUT, REFUSED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVER = float("-inf")


@pytest.mark.parametrize("bad", [[], [0], [6], [2, 3], [0, 1, 2, 3, 4, 5, 6]])
def test_those_that_are_broken_are_found(bad: list[int]) -> None:
    asked: list[Sequence[str]] = []

    def whole(names: Sequence[str]) -> bool:
        asked.append(names)
        return not any(int(name) in bad for name in names)

    assert broken([str(number) for number in range(7)], whole) == [str(each) for each in bad]
    assert len(asked) <= 1 + 2 * 3 * len(bad)


def test_which_errors_say_so() -> None:
    """A plain file that fails today may be read tomorrow, as may one that is refused."""
    assert is_broken(CUT)
    assert not is_broken(CUT.replace(".jsonl.gz", ".jsonl"))
    assert not is_broken(REFUSED)


def packed(lines: Sequence[str]) -> bytes:
    return gzip.compress("".join(f"{line}\n" for line in lines).encode())


def compressed(logs: Logs, process: Process, keep: float = 1.0) -> Path:
    """Plant a process's log in a compressed file, or the first part of that."""
    name = FileName(int(T0), "celery@n", process.pid, process.boot, 0)
    path = logs.folder / "host + 100%41" / f"{name}.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = packed(process.lines)
    path.write_bytes(whole[: int(keep * len(whole))])
    os.utime(path, (T0 + 1000, T0 + 1000))
    return path


@pytest.mark.wide
def test_a_file_that_is_cut_does_not_stop_the_others(
    spark: SparkSession, logs: Logs, tmp_path: Path
) -> None:
    cut, whole = Process().boots(0), Process().boots(0)
    for number in range(100):
        cut.runs(f"{number}", 1 + number)
    cut.ends(200)
    path = compressed(logs, cut, 0.7)
    compressed(logs, whole)
    warehouse = Warehouse(spark, tmp_path / "warehouse")
    said: list[str] = []
    done = ingest(warehouse, logs.folder, say=said.append)
    assert [Path(each).name for each in done.broken] == [path.name]
    assert done.quarantined == {BREAKS_OFF: 1}
    assert 100 < done.events == done.lines < 202
    assert any("cut short or broken" in text for text in said)
    complete = {row["boot"]: row["complete"] for row in warehouse.table("processes").collect()}
    assert complete == {cut.boot: False, whole.boot: True}
    (row,) = warehouse.table("unreadable").collect()
    assert (row["boot"], row["since"], row["until"]) == (cut.boot, T0, T0 + 1000)


@pytest.mark.wide
def test_nothing_is_proven_by_what_a_file_has_lost(
    spark: SparkSession, logs: Logs, tmp_path: Path
) -> None:
    """When it is there again, it is."""
    cut, rejecter = Process(queue="mail").boots(0), Process(queue="mail").boots(0)
    for number in range(100):
        cut.runs(f"{number}", 1 + number)
    cut.starts("letter", 150)
    cut.ends(200)
    for name, queue in (("letter", "mail"), ("other", "else")):
        rejecter.rejects(name, 300, published=100, queue=queue)
    rejecter.ends(400)
    compressed(logs, cut, 0.7)
    compressed(logs, rejecter)
    warehouse = Warehouse(spark, tmp_path / "warehouse")
    ingest(warehouse, logs.folder)
    verdicts = audited(warehouse)
    assert (verdicts["letter"], verdicts["other"]) == ("UNKNOWN", "REPLAYABLE")

    compressed(logs, cut)
    mended = ingest(warehouse, logs.folder)
    assert (mended.broken, mended.quarantined) == ([], {})
    assert warehouse.table("quarantine").isEmpty()
    assert warehouse.table("unreadable").isEmpty()
    assert audited(warehouse)["letter"] == "DEAD_LETTERED"


@pytest.mark.wide
def test_a_file_of_two_members_is_cut(spark: SparkSession, logs: Logs, tmp_path: Path) -> None:
    """As of two that were put together: in the second of them, or just before it."""
    processes = {name: Process(queue=name).boots(0) for name in ("whole", "within", "before")}
    for name, process in processes.items():
        for number in range(200):
            process.runs(f"{name}{number}", 1 + number)
        process.ends(300)
        first, second = packed(process.lines[:201]), packed(process.lines[201:])
        keep = {"whole": len(second), "within": len(second) // 2, "before": 0}[name]
        compressed(logs, process).write_bytes(first + second[:keep])
    rejecter = Process().boots(0)
    for name in processes:
        rejecter.rejects(name, 350, published=320, queue=name)
    rejecter.ends(400)
    logs.plant(rejecter)
    warehouse = Warehouse(spark, tmp_path / "warehouse")
    done = ingest(warehouse, logs.folder)
    assert len(done.broken) == 1
    assert done.quarantined == {BREAKS_OFF: 1}

    lived = {row["boot"]: row for row in warehouse.table("processes").collect()}
    whole, within, before = (lived[process.boot] for process in processes.values())
    assert (whole["records"], whole["complete"], whole["end"]) == (402, True, "exit")
    assert 201 < within["records"] < 402
    assert (within["complete"], within["liveness"]) == (False, "silent")
    # Its file is whole as such: but nobody has told its end, or been heard of.
    assert (before["records"], before["end"], before["liveness"]) == (201, None, "silent")
    verdicts = audited(warehouse)
    said = {name: verdicts[name] for name in processes}
    assert said == {"whole": "REPLAYABLE", "within": "UNKNOWN", "before": "UNKNOWN"}


def audited(warehouse: Warehouse) -> dict[str, str]:
    rows = publish_audit(warehouse, lambda _: None).collect()
    return {row["id"]: row["verdict"] for row in rows}


def test_what_a_broken_file_may_have_had(spark: SparkSession) -> None:
    known = Process(queue="mail").boots(0)
    known.ends(60)
    names = {
        f"{T0:.0f}-n-{known.pid}-{known.boot}-0.jsonl.zst": (T0, known.boot, ["mail"]),
        f"{T0 + 6:.0f}-n-9-gone-1.jsonl.gz": (T0 + 6, "gone", None),
        f"{T0 + 36:.0f}-00ff{PACKED}": (T0 + 36, None, None),
        "7-collected.jsonl.gz": (EVER, None, None),
    }
    quarantine = spark.createDataFrame(
        [(f"file:///a%20+%25/{name}", "", BREAKS_OFF) for name in names]
        + [("file:///a/whole.jsonl.gz", "{", "torn")],
        "file string, text string, reason string",
    )
    files = spark.createDataFrame(
        [(f"file:/a +%/{name}", T0 + at) for name in names for at in (100, 200)]
        + [("file:/a/whole.jsonl.gz", T0 + 300)],
        "file string, at double",
    ).selectExpr("file", "timestamp_seconds(at) as changed")
    found = unreadable(quarantine, files)
    assert found.count() == len(names) + 1  # and lines of nobody's
    processes = Silver.of(bronze(spark, [known])).processes
    rows = doubts_of(processes, unreadable=found).where(f"until = {T0 + 200}").collect()
    assert {
        row["why"].rpartition(" ")[2]: (row["since"], row["boot"], row["queues"]) for row in rows
    } == names
