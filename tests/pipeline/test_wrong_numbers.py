"""Records whose numbers a failing disk has changed: what that hides is in doubt.

Of each process the message of its queue, published at 115 or at 121.5 and rejected at 130, was
started at 122, with the number 12; the record of that is torn, lost, or hidden by another.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import pytest
from pyspark.sql import functions as F

from celery_fair.pipeline.ingest import Ingested, ingest
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


HIDDEN = [f"{name}{torn}" for name in ("itself", "far", "near") for torn in (False, True)]
NEVER = ["plain", "back", *HIDDEN]
PROVEN = "absent"


def hide(logs: Logs) -> None:
    """Let none of the starts be seen."""
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
    absent = Process(queue=PROVEN).boots(0)
    absent.ends(180)
    logs.plant(absent)
    rejecter = Process(node="celery@other", queue="other").boots(0)
    for queue in (*NEVER, PROVEN):
        for published in PUBLISHED:
            rejecter.rejects(f"{queue} {published}", 130, published=published, queue=queue)
    rejecter.ends(7000)
    logs.plant(rejecter)


class Told(NamedTuple):
    """What three runs over a folder that changes did, and what was said after each."""

    done: list[Ingested]
    audits: list[dict[str, Row]]
    clashing: Row
    quarantine: list[Row]

    def verdicts(self, run: int, *names: str) -> list[str]:
        return [self.audits[run][name]["verdict"] for name in names]


LATER = cut, torn = starting("cut"), starting("torn")


@pytest.fixture(scope="module")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Told:
    folder = tmp_path_factory.mktemp("numbers")
    logs, warehouse = Logs(folder / "logs"), Warehouse(spark, folder / "warehouse")
    done, audits = [], []

    def run() -> None:
        done.append(ingest(warehouse, logs.folder))
        rows = write_audit(warehouse, None, lambda _: None).collect()
        audits.append({row["id"]: row for row in rows})

    hide(logs)
    for process in LATER:
        lines = process.lines
        logs.write(file_of(process), [*lines[:3], renumbered(lines[2], START), *lines[3:]])
    logs.plant(letters("cut", "torn", "before"))
    once = Process(queue="once").boots(0)
    once.runs("once", 100, published=95)
    once.ends(180)
    logs.write(file_of(once), once.lines)
    logs.write(copied(once), [renumbered(once.lines[1], 9)])
    before = Process(queue="before").boots(0)
    for at in range(1, 100):
        before.beats(at)
    first, rest = before.lines[:70], before.lines[70:]
    before.ends(180)
    logs.write(file_of(before), first)
    run()

    logs.write(file_of(cut), cut.lines[:2])
    logs.write(file_of(torn), without_start(torn.lines, torn=True))
    for path, lines in ((copied(before), first), (f"{copied(before)}.part.jsonl", first[7:50])):
        logs.write(path, lines)
    name = file_of(before, 70).replace("-0.jsonl", "-1.jsonl")
    logs.write(name, [*rest, before.lines[100]])
    run()

    changed = rest[5].replace('"seq": 75', '"seq": 35')
    assert changed != rest[5]
    logs.write(f"copied/{before.boot}.jsonl", [*rest[:5], changed])
    run()
    (clashing,) = warehouse.table("processes").where(f"clash and boot = '{before.boot}'").collect()
    return Told(done, audits, clashing, warehouse.table("quarantine").collect())


def test_none_of_these_is_replayable(told: Told) -> None:
    said = dict.fromkeys(NEVER, "UNKNOWN") | {PROVEN: "REPLAYABLE"}
    for queue, verdict in said.items():
        names = [f"{queue} {at}" for at in PUBLISHED]
        rejected = [told.audits[0][name]["starts"] for name in names]
        assert (rejected, told.verdicts(0, *names)) == ([0, 0], [verdict] * 2), queue


def test_a_file_that_changes_later(told: Told) -> None:
    """What was kept in place of the other is there still, whatever becomes of the file."""
    for run in (0, 1, 2):
        assert told.verdicts(run, "cut", "torn") == ["UNKNOWN"] * 2


def test_a_start_that_is_there_by_two_numbers(told: Told) -> None:
    """It is no duplicate."""
    once = told.audits[0]["once"]
    assert (once["starts"], once["verdict"]) == (2, "UNKNOWN")
    assert "one may be a copy" in once["why"]


def test_number_that_was_read_before(told: Told) -> None:
    """A record with the number of one that another run has read; and with it, much once more."""
    _, second, third = told.done
    again = 2 + len(torn.lines) - 1  # of those whose files have changed
    assert (second.events, second.duplicates) == (31, 70 + 43 + again)
    assert CLASH not in second.quarantined
    assert told.verdicts(1, "before") == ["REPLAYABLE"]

    assert (third.events, third.duplicates, third.quarantined) == (0, 5, {CLASH: 1})
    assert told.verdicts(2, "before") == ["UNKNOWN"]
    assert (told.clashing["complete"], told.clashing["missing"]) == (False, 0)
    times = [json.loads(row["text"]).get("at") for row in told.quarantine if row["reason"] == CLASH]
    assert times.count(T0 + 75) == 1


def test_an_open_file_is_read_again(spark: SparkSession, logs: Logs, tmp_path: Path) -> None:
    """Its clash is kept once."""
    process = starting("q")
    name = file_of(process).replace("host/", "host/_open-")
    logs.write(name, [*process.lines[:-1], renumbered(process.lines[2], START)])
    warehouse = Warehouse(spark, tmp_path / "warehouse")
    for _ in range(2):
        assert ingest(warehouse, logs.folder, include_open=True).quarantined == {CLASH: 1}
    assert warehouse.table("quarantine").count() == 1


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
