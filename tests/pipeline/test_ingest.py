"""Logs as they are found: torn, copied, late, of another version; ingested once and again."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from celery_fair.eventlog.records import VERSION
from celery_fair.pipeline.bronze import parsed
from celery_fair.pipeline.errors import PipelineError
from celery_fair.pipeline.ingest import ingest
from celery_fair.pipeline.silver.attempts import attempts
from celery_fair.pipeline.warehouse import Warehouse
from tests.pipeline.planted import T0, Logs, Process, written
from tests.pipeline.staged import bronze_of_lines, processes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GARBAGE = {
    "": "empty",
    "   ": "empty",
    "\x00\x00\x00": "torn or no JSON",
    "not json": "torn or no JSON",
    "[1, 2]": "torn or no JSON",
    '"text"': "torn or no JSON",
    "{}": "does not name its version, process and time",
    '{"v": 1, "kind": "started"': "torn or no JSON",
    '{"v": 1, "quanta": {"a": 1.0}': "torn, or a value of another type",
    '{"v": 1}{"v": 1}': "two records in one line",
}


def wrong(**changes: Any) -> str:
    record = Process(pid=7, boot="w").write("started", 1, id="w", retries=0)
    record = written(record) | changes
    return json.dumps({k: v for k, v in record.items() if v != "left out"})


GARBAGE |= {
    wrong(v=VERSION + 1): f"of version {VERSION + 1}, and this celery-fair reads {VERSION}",
    wrong(v=0, at=1.5): f"of version 0, and this celery-fair reads {VERSION}",
    wrong(v="left out"): "does not name its version, process and time",
    wrong(seq=None): "does not name its number",
    wrong(node="left out"): "does not name its version, process and time",
    wrong(at="yesterday"): "torn, or a value of another type",
    wrong(retries=[1]): "torn, or a value of another type",
    wrong(at=1e300): "impossible time",
    wrong(at=-5): "impossible time",
    wrong(seq=-5): "impossible number",
    wrong(runtime=float("nan")): "torn, or a value of another type",
    wrong(seq=2**63 - 1): "impossible number",
    wrong(last=2**63 - 1): "impossible number",
    wrong(dropped=2**62): "impossible number",
}


def bare_record() -> str:
    """One that lacks fields."""
    known = {"v": VERSION, "kind": "started", "node": "celery@odd", "pid": 3, "boot": "o", "seq": 0}
    return json.dumps(known | {"at": T0 * 1e6, "id": "bare"})


def unknown_record() -> str:
    """One of a kind that nobody knows, with a field of that."""
    known = {"v": VERSION, "kind": "moved", "node": "celery@odd", "pid": 3, "boot": "o", "seq": 1}
    return json.dumps(known | {"at": T0 * 1e6, "id": "bare", "to": "elsewhere"})


def test_lines_that_are_no_records(spark: SparkSession) -> None:
    rows = [(line, "planted") for line in GARBAGE]
    lines = parsed(spark.createDataFrame(rows, "value string, file string"))
    assert {row["text"]: row["wrong"] for row in lines.collect()} == GARBAGE


def test_lines_that_end_as_on_windows(spark: SparkSession) -> None:
    """Who copies a log may end its lines another way, and begin the file with a mark."""
    process = Process().boots(0)
    process.runs("a", 1)
    lines = [f"{line}\r" for line in process.lines]
    lines[0] = f"\ufeff{lines[0]}"
    rows = [(line, "planted") for line in [*lines, "\r", f"{lines[1][:-9]}\r"]]
    read = parsed(spark.createDataFrame(rows, "value string, file string")).collect()
    assert [row["wrong"] for row in read] == [None] * 3 + ["empty", "torn or no JSON"]
    assert [row["seq"] for row in read[:3]] == [0, 1, 2]


@pytest.mark.wide
def test_names_that_look_like_what_they_are_not(spark: SparkSession) -> None:
    names = ["} {", '"} {"', "\\", "a,b", "line\nline", "{}{}"]
    process = Process().boots(0)
    for number, name in enumerate(names):
        process.runs(f"{number}", 1 + number, queue=name, cost_key=name)
    rows = [(line, "planted") for line in process.lines]
    rows += [(line + " " + line, "planted") for line in process.lines]
    lines = parsed(spark.createDataFrame(rows, "value string, file string"))
    wrong = [row["wrong"] for row in lines.collect()]
    assert wrong == [None] * len(process.records) + ["two records in one line"] * len(
        process.records
    )
    found = lines.where("wrong is null and kind = 'started'").select("queue").collect()
    assert [row["queue"] for row in found] == names


def test_braces_in_a_text_are_no_second_record(spark: SparkSession) -> None:
    """A cost key may be a text such as another program's JSON."""
    process = Process().boots(0)
    for key in ("a } { b", '"}{"', '\\" } {', '{"x": {}} {"y": 1}'):
        process.runs("a", 1, cost_key=key)
    two = process.lines[0] + process.lines[1]
    rows = [(line, "planted") for line in [*process.lines, two]]
    lines = parsed(spark.createDataFrame(rows, "value string, file string")).collect()
    assert [row["wrong"] for row in lines] == [*[None] * 9, "two records in one line"]
    assert {row["cost_key"] for row in lines[1:9]} == {
        "a } { b",
        '"}{"',
        '\\" } {',
        '{"x": {}} {"y": 1}',
    }


def test_an_event_that_is_read_twice_is_one(spark: SparkSession) -> None:
    process = Process().boots(0)
    process.runs("a", 1)
    found = bronze_of_lines(spark, [*process.lines, *process.lines[1:]])
    assert sorted(row["seq"] for row in found.collect()) == [0, 1, 2]


@pytest.mark.wide
def test_who_is_taken_for_dead_and_goes_on(spark: SparkSession) -> None:
    process = Process().boots(0)
    process.ends(1, "dead")
    process.starts("a", 2)
    events = bronze_of_lines(spark, [*process.lines, *process.lines])
    assert events.count() == 3
    (lived,) = processes(events).collect()
    assert (lived["missing"], lived["end"]) == (0, None)


def test_wait_below_zero_is_told_as_it_is(spark: SparkSession) -> None:
    """Two clocks disagree; to call it none would hide by how much."""
    process = Process().boots(0)
    process.runs("skewed", 10, published=12.5)
    (row,) = attempts(bronze_of_lines(spark, process.lines)).collect()
    assert (row["wait"], row["skewed"]) == (-2.5, True)


@pytest.mark.wide
def test_two_runs_over_a_folder_that_grows(spark: SparkSession, logs: Logs, tmp_path: Path) -> None:
    warehouse = Warehouse(spark, tmp_path / "warehouse")
    process = Process(node="celery@é b", pid=5).boots(0)
    process.runs("skewed", 10, published=12.0)
    process.runs("plain", 20, published=19.5)
    (path,) = logs.plant(process, under="deep/er [1]")
    shutil.copy(path, path.with_name("copy.jsonl"))
    torn = json.dumps(process.write("queue", 30, queue="q", state="ready"))[:-9]
    logs.write("garbage.jsonl", [*GARBAGE, bare_record(), unknown_record()], torn)
    logs.write("_open-now.jsonl", [wrong()], torn)

    first = ingest(warehouse, logs.folder)
    expected = {reason: list(GARBAGE.values()).count(reason) for reason in GARBAGE.values()}
    expected["torn or no JSON"] += 1
    assert first.quarantined == expected
    assert (first.files, first.lines) == (3, 5 + 5 + len(GARBAGE) + 2 + 1)
    assert (first.events, first.duplicates) == (5 + 2, 5)
    assert warehouse.table("events").count() == 7
    quarantine = warehouse.table("quarantine").collect()
    assert {row["file"].rpartition("/")[2] for row in quarantine} == {"garbage.jsonl"}
    assert {row["text"]: row["reason"] for row in quarantine if row["text"] != torn} == GARBAGE

    attempts = {row["id"]: row for row in warehouse.table("attempts").collect()}
    assert set(attempts) == {"skewed", "plain", "bare"}
    assert (attempts["skewed"]["wait"], attempts["skewed"]["skewed"]) == (-2.0, True)
    assert (attempts["plain"]["wait"], attempts["plain"]["skewed"]) == (0.5, False)
    assert (attempts["bare"]["wait"], attempts["bare"]["queue"]) == (None, None)
    processes = {row["node"]: row for row in warehouse.table("processes").collect()}
    assert processes["celery@é b"]["missing"] == 0
    assert processes["celery@odd"]["records"] == 2

    assert asdict(ingest(warehouse, logs.folder)) == {
        "version": 1,
        "files": 0,
        "open_files": 0,
        "lines": 0,
        "events": 0,
        "duplicates": 0,
        "quarantined": {},
        "broken": [],
        "unset_clocks": [],
    }

    late = Process(node=process.node, pid=5, boot=process.boot, seq=process.seq)
    late.finishes("plain", 40)
    logs.write("late.jsonl", late.lines)
    opened = ingest(warehouse, logs.folder, include_open=True)
    assert (opened.files, opened.open_files, opened.events) == (1, 1, 2)
    assert (opened.version, opened.quarantined) == (2, {})
    assert warehouse.table("events").count() == 9
    attempts = {row["id"]: row for row in warehouse.table("attempts").collect()}
    assert attempts["plain"]["finishes"] == 2
    assert warehouse.table("quarantine").count() == len(GARBAGE) + 1
    # The torn record was counted by its writer, and is not here.
    (row,) = warehouse.table("processes").where("pid = 5").collect()
    assert (row["missing"], row["complete"]) == (1, False)


@pytest.mark.wide
def test_whose_file_has_lines_that_are_no_records_is_in_doubt(
    spark: SparkSession, logs: Logs, tmp_path: Path
) -> None:
    """Nobody knows what they were. Times that another version has written are not read."""
    warehouse = Warehouse(spark, tmp_path / "warehouse")
    torn, whole, other = (Process().boots(0) for _ in range(3))
    for process in (torn, whole, other):
        process.runs(f"of {process.boot}", 1)
        process.ends(9)
    path, _, of_another = logs.plant(torn, whole, other)
    changed = [
        json.dumps(record | {"v": 7, "seq": n + 9}) for n, record in enumerate(other.records)
    ]
    of_another.write_text("".join(f"{line}\n" for line in [*other.lines, *changed]))
    path.with_name(path.name.replace("-0.jsonl", "-1.jsonl")).write_text('{"v":1,"kind":"sta')
    done = ingest(warehouse, logs.folder)
    told = f"of version 7, and this celery-fair reads {VERSION}"
    assert (done.events, done.quarantined) == (12, {told: 4, "torn or no JSON": 1})
    assert warehouse.table("quarantine").count() == 5
    rows = warehouse.table("processes").collect()
    boots = {torn.boot: False, whole.boot: True, other.boot: False}
    assert {row["boot"]: row["complete"] for row in rows} == boots
    assert {row["boot"]: row["records"] for row in rows} == dict.fromkeys(boots, 4)


def test_folder_that_is_not(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="is no folder"):
        ingest(Warehouse(spark, tmp_path / "warehouse"), tmp_path / "logs")


def test_empty_folder(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    warehouse = Warehouse(spark, tmp_path / "warehouse")
    with pytest.raises(PipelineError, match="no file of an event log"):
        ingest(warehouse, tmp_path / "logs")
    (tmp_path / "logs" / "_open-1-n-1-b-0.jsonl").touch()
    with pytest.raises(PipelineError, match="no sealed file yet"):
        ingest(warehouse, tmp_path / "logs")
    (tmp_path / "logs" / "1-n-1-b-0.jsonl").touch()
    with pytest.raises(PipelineError, match="or only empty ones"):
        ingest(warehouse, tmp_path / "logs")
    with pytest.raises(PipelineError, match="no table 'attempts'"):
        warehouse.table("attempts")
