"""Records whose numbers a failing disk has changed: what that hides is in doubt.

Of each process the message of its queue, published at 115 or at 121.5 and rejected at 130, was
started at 122, with the number 12; the record of that is torn, lost, or hidden by another.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from celery_fair.pipeline.ingest import ingest
from celery_fair.pipeline.numbering import CLASH, clashes, numbers, suspects
from celery_fair.pipeline.publish import write_audit
from celery_fair.pipeline.warehouse import Warehouse
from tests.pipeline.planted import T0, Logs, Process
from tests.pipeline.staged import bronze_of_lines
from tests.pipeline.test_hidden_starts import file_of, letters

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, Row, SparkSession

START = 12
PUBLISHED = (115, 121.5)


def starting(queue: str, boots: float = 0, ends: float = 180) -> Process:
    process = Process(queue=queue).boots(boots)
    for at in range(10, 120, 10):
        process.beats(at)
    process.starts(queue, 122)
    for at in (123, 140, 150, 160):
        process.beats(at)
    process.ends(ends)
    return process


def renumbered(line: str, number: int) -> str:
    record = json.loads(line)
    return json.dumps(record | {"seq": number})


def without_start(lines: list[str], torn: bool) -> list[str]:
    return [*lines[:START], *([lines[START][:40]] if torn else []), *lines[START + 1 :]]


def copied(process: Process) -> str:
    return file_of(process).replace("host/", "copied/")


def test_none_of_these_is_replayable(spark: SparkSession, logs: Logs, tmp_path: Path) -> None:
    plain, back = starting("plain"), starting("back", 5000, 6000)
    for process in (plain, back):  # a copy of another record has its number
        logs.write(file_of(process), [*process.lines, renumbered(process.lines[2], START)])
    for torn in (False, True):
        itself, far, near = (starting(f"{name}{torn}") for name in ("itself", "far", "near"))
        lines = without_start(itself.lines, torn)
        logs.write(file_of(itself), [*lines[:2], renumbered(lines[2], START), *lines[3:]])
        for process, at, number in ((far, 2, 6), (near, 11, 12)):
            lines = process.lines
            lines[at] = renumbered(lines[at], START)
            if process is far:  # the copy of a part of the file
                logs.write(copied(process), lines[:number])
                lines = process.lines
            logs.write(file_of(process), without_start(lines, torn))
    absent = Process(queue="absent").boots(0)
    absent.ends(180)
    logs.plant(absent)
    queues = ["plain", "back", "absent"]
    queues += [f"{name}{torn}" for name in ("itself", "far", "near") for torn in (False, True)]
    rejecter = Process(node="celery@other", queue="other").boots(0)
    for queue in queues:
        for published in PUBLISHED:
            rejecter.rejects(f"{queue} {published}", 130, published=published, queue=queue)
    rejecter.ends(7000)
    logs.plant(rejecter)
    warehouse = Warehouse(spark, tmp_path / "warehouse")
    ingest(warehouse, logs.folder)
    found = {row["id"]: row["verdict"] for row in audited(warehouse) if row["starts"] == 0}
    said = dict.fromkeys(queues, "UNKNOWN") | {"absent": "REPLAYABLE"}
    assert found == {f"{queue} {at}": said[queue] for queue in queues for at in PUBLISHED}


def audited(warehouse: Warehouse) -> list[Row]:
    return write_audit(warehouse, None, lambda _: None).collect()


def test_a_file_that_changes_later(spark: SparkSession, logs: Logs, tmp_path: Path) -> None:
    """What was kept in place of the other is there still, whatever becomes of the file."""
    cut, torn = starting("cut"), starting("torn")
    for process in (cut, torn):
        lines = process.lines
        logs.write(file_of(process), [*lines[:3], renumbered(lines[2], START), *lines[3:]])
    logs.plant(letters("cut", "torn"))
    warehouse = Warehouse(spark, tmp_path / "warehouse")
    assert ingest(warehouse, logs.folder).quarantined == {CLASH: 2}
    logs.write(file_of(cut), cut.lines[:2])
    logs.write(file_of(torn), without_start(torn.lines, torn=True))
    ingest(warehouse, logs.folder)
    assert {row["verdict"] for row in audited(warehouse)} == {"UNKNOWN"}


def test_a_start_that_is_there_by_two_numbers(
    spark: SparkSession, logs: Logs, tmp_path: Path
) -> None:
    """It is no duplicate."""
    process = Process().boots(0)
    process.runs("once", 100, published=95)
    process.ends(180)
    logs.write(file_of(process), process.lines)
    logs.write(copied(process), [renumbered(process.lines[1], 9)])
    warehouse = Warehouse(spark, tmp_path / "warehouse")
    ingest(warehouse, logs.folder)
    (once,) = audited(warehouse)
    assert (once["starts"], once["verdict"]) == (2, "UNKNOWN")
    assert "one may be a copy" in once["why"]


def test_an_open_file_is_read_again(spark: SparkSession, logs: Logs, tmp_path: Path) -> None:
    """Its clash is kept once."""
    process = starting("q")
    name = file_of(process).replace("host/", "host/_open-")
    logs.write(name, [*process.lines[:-1], renumbered(process.lines[2], START)])
    warehouse = Warehouse(spark, tmp_path / "warehouse")
    for _ in range(2):
        assert ingest(warehouse, logs.folder, include_open=True).quarantined == {CLASH: 1}
    assert warehouse.table("quarantine").count() == 1


def test_number_that_was_read_before(spark: SparkSession, logs: Logs, tmp_path: Path) -> None:
    """A record with the number of one that another run has read; and with it, much once more."""
    process = Process(queue="q").boots(0)
    for at in range(1, 100):
        process.beats(at)
    first, rest = process.lines[:70], process.lines[70:]
    process.ends(180)
    (end,) = process.lines[100:]
    logs.write(file_of(process), first)
    logs.plant(letters("q"))
    warehouse = Warehouse(spark, tmp_path / "warehouse")
    ingest(warehouse, logs.folder)
    copied = file_of(process).replace("host/", "copied/")
    for path, lines in ((copied, first), (f"{copied}.part.jsonl", first[7:50])):
        logs.write(path, lines)
    logs.write(file_of(process, 70).replace("-0.jsonl", "-1.jsonl"), [*rest, end])
    done = ingest(warehouse, logs.folder)
    assert (done.events, done.duplicates, done.quarantined) == (31, 70 + 43, {})
    assert verdict(warehouse) == "REPLAYABLE"

    changed = rest[5].replace('"seq": 75', '"seq": 35')
    assert changed != rest[5]
    logs.write(f"copied/{process.boot}.jsonl", [*rest[:5], changed])
    done = ingest(warehouse, logs.folder)
    assert (done.events, done.duplicates, done.quarantined) == (0, 5, {CLASH: 1})
    assert verdict(warehouse) == "UNKNOWN"
    (lived,) = warehouse.table("processes").where("clash").collect()
    assert (lived["boot"], lived["complete"], lived["missing"]) == (process.boot, False, 0)
    (line,) = warehouse.table("quarantine").collect()
    assert json.loads(line["text"])["at"] == T0 + 75


def verdict(warehouse: Warehouse) -> str:
    (row,) = write_audit(warehouse, None, lambda _: None).where("starts = 0").collect()
    return str(row["verdict"])


def test_words_that_need_no_comparison(spark: SparkSession) -> None:
    """What was read before is not looked at again, if digests show that it is the same."""
    process = Process().boots(0)
    for at in range(1, 100):
        process.beats(at)
    copied = bronze_of_lines(spark, process.lines)
    before = numbers(bronze_of_lines(spark, process.lines[:80]))
    changed = [line.replace(f'"at": {T0 + 3:.0f}', f'"at": {T0 + 4:.0f}') for line in process.lines]
    assert changed != process.lines
    kept = bronze_of_lines(spark, changed)

    def clashing(known: DataFrame) -> int:
        return clashes(copied, suspects(numbers(copied), known), known, kept).count()

    assert clashing(before) == 0
    partly = numbers(copied.where("seq < 90"))
    assert clashing(partly.withColumn("digest", F.lit(None).cast("long"))) == 1
