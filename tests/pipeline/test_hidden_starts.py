"""Logs that have no start of a message, and may have had one all the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from celery_fair.eventlog.log_file import FileName
from celery_fair.eventlog.packer import PACKED
from celery_fair.pipeline.gold.audit import audit
from celery_fair.pipeline.ingest import ingest
from celery_fair.pipeline.publish import publish_audit
from celery_fair.pipeline.silver.attempts import attempts
from celery_fair.pipeline.silver.processes import gaps
from celery_fair.pipeline.warehouse import Warehouse
from tests.pipeline.planted import T0, Logs, Process, written
from tests.pipeline.staged import bronze_of_lines, doubts_of, processes

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

PUBLISHED, REJECTED = 115.0, 130.0


def file_of(process: Process, since: float = 0) -> str:
    return f"host/{FileName(int(T0 + since), 'celery@n', process.pid, process.boot, 0)}"


def letters(*queues: str) -> Process:
    """A process of another host that has rejected a message of each queue."""
    rejecter = Process(node="celery@other", queue="other").boots(0)
    for queue in queues:
        rejecter.rejects(queue, REJECTED, published=PUBLISHED, queue=queue)
    rejecter.ends(200)
    return rejecter


def suspects() -> dict[str, Process]:
    """Processes that may have started the message of their queue when nobody saw it."""
    resumed = Process(queue="resumed").boots(0)  # its host had been asleep
    resumed.dies(50, last=0)
    resumed.beats(60)

    resumed_earlier = Process(queue="resumed_earlier").boots(0)  # by its own clock
    resumed_earlier.dies(50, last=0)
    resumed_earlier.beats(40)

    ended = Process(queue="ended").boots(0)
    ended.dies(50, last=0)
    ended.beats(60)
    ended.ends(180, dropped=3)

    corrected = Process(queue="corrected").boots(5000)  # and so was the clock, after a power loss
    corrected.beats(5060)
    corrected.dies(200, last=1, dropped=1)

    parent = Process(queue="parent").boots(5000)
    parent.write("process", 5010, state="child", parent=parent.boot, child=77)
    parent.ends(180)

    beheaded = Process(queue="beheaded").boots(0)
    beheaded.starts("beheaded", 120)
    beheaded.beats(125, quanta={"beheaded": 1.0})
    beheaded.beats(20)
    beheaded.ends(40)
    del beheaded.records[:2]

    advanced = Process(queue="advanced").boots(5000)  # before its clock was set right
    advanced.beats(100)
    advanced.beats(1000, dropped=3)
    advanced.ends(6000, dropped=3)

    orphaned = Process(queue="orphaned").boots(5000)  # likewise
    orphaned.write("process", 100, state="child", parent=orphaned.boot, child=78)
    orphaned.ends(6000)

    again = Process(queue="again").boots(0)  # a child's number is another's by then
    for at in (5, 120):
        again.write("process", at, state="child", parent=again.boot, child=again.pid + 2000)
    again.ends(180)

    retold = Process(queue="retold").boots(0)
    retold.dies(50, last=0)

    every = (
        *(resumed, resumed_earlier, ended, corrected, parent, beheaded),
        *(advanced, orphaned, again, retold),
    )
    return {str(process.queue): process for process in every}


def test_none_of_these_is_replayable(spark: SparkSession) -> None:
    found = suspects()
    of_again = Process(pid=found["again"].pid + 2000, parent=found["again"].boot).boots(5)
    of_again.ends(30)
    retold = found["retold"]  # by another, who knows that something is lost
    later = retold.records[-1] | {"at": T0 + 200, "dropped": 1}
    twice = Process(queue="twice").boots(0)  # the second time it was true
    twice.dies(50, last=0)
    twice.beats(60)
    twice.dies(70, last=1)
    every = (*found.values(), of_again, twice, letters("nobodys", "twice", *found))
    lines = [line for process in every for line in process.lines]
    events = bronze_of_lines(spark, [*lines, retold.lines[0], json.dumps(written(later))])
    lived = processes(events).localCheckpoint()
    doubted = doubts_of(lived, gaps(events, lived)).localCheckpoint()
    audited = audit(attempts(events).localCheckpoint(), lived, doubted)
    rows = audited.where("starts = 0").collect()
    verdicts = {row["id"]: row["verdict"] for row in rows}
    assert len(rows) == len(verdicts)
    proven = dict.fromkeys(["nobodys", "twice"], "REPLAYABLE")
    assert verdicts == proven | dict.fromkeys(found, "UNKNOWN")


@pytest.mark.wide
def test_files_that_do_not_say_whose_they_are(
    spark: SparkSession, logs: Logs, tmp_path: Path
) -> None:
    rejecter = letters("q")
    logs.write(file_of(rejecter), rejecter.lines)
    garbage, gone = Process(), Process()
    logs.write(file_of(garbage, 100), ["\0" * 400])
    names = [f"{T0:.0f}-00ff{PACKED}", "empty.jsonl", "1:2.jsonl"]
    for name in names:
        (logs.folder / "host" / name).write_text("{}" if ":" in name else "")
    logs.write("host/collected.jsonl", ['{"v":1,"ki'])
    logs.write(f"host/_open-{file_of(gone, 100).removeprefix('host/')}", [])
    warehouse = Warehouse(spark, tmp_path / "warehouse")
    ingest(warehouse, logs.folder)

    (letter,) = publish_audit(warehouse, lambda _: None).collect()
    assert (letter["id"], letter["verdict"]) == ("q", "UNKNOWN")
    doubts = warehouse.table("doubts").collect()
    assert {row["queues"] for row in doubts} == {None}
    assert {(row["boot"], row["why"]) for row in doubts} == {
        (garbage.boot, "no file of its log was read yet"),
        (gone.boot, "no file of its log was read yet"),
        (None, "lines of a file are no records: collected.jsonl"),
        *((None, f"a file of the log is empty, or cannot be named: {name}") for name in names),
    }
