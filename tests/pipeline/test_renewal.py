"""Silver that was made bit by bit is what it would be if it were made at once."""

from __future__ import annotations

import random
from functools import reduce
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from celery_fair.pipeline import warehouse as warehouses
from celery_fair.pipeline.ingest import ingest
from celery_fair.pipeline.warehouse import Warehouse, overgrown
from tests.pipeline.planted import Logs, Process

TABLES = ("events", "attempts", "backlog", "settings", "processes", "gaps", "unreadable")
WORD = 64  # see celery_fair.pipeline.bronze
ITSELF = ["says", "beats", "shares", "child"]
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.wide) for seed in range(1, 6))]


def work(draw: random.Random, process: Process, tasks: list[str]) -> None:
    """Let a process write something about some tasks, which others may know, too."""
    at = draw.uniform(0, 100)
    process.boots(at, quanta={"q": 1.0})
    for _ in range(draw.randrange(5, 3 * WORD)):
        at += draw.expovariate(10)
        task, retries = draw.choice(tasks), draw.choice([0, 0, 0, 1])
        what = draw.choice(["starts", "starts", "finishes", "finishes", "rejects", *ITSELF])
        if what == "starts":
            process.starts(task, at, published=at - draw.uniform(-1, 5), retries=retries)
        elif what == "finishes":
            process.finishes(task, at, retries=retries, broken_off=draw.choice([None, True]))
        elif what == "rejects":
            process.rejects(task, at, published=None, retries=retries)
        else:
            tell(draw, process, what, at)
    end(draw, process, at + 1, draw.choice(tasks))


def tell(draw: random.Random, process: Process, what: str, at: float) -> None:
    """Let it write something about itself; some of that gets lost."""
    if what == "says":
        states = ["ready", "empty", "throttled"]
        process.says(draw.choice("qr"), draw.choice(states), at, draw.choice([1.0, 2.0]))
    elif what == "shares":
        fields = {"costs": draw.choice(["one", "runtime"]), "key_weights": {"k": 2.0}}
        process.write("settings", at, queue=draw.choice("qr"), quantum=1.0, **fields)
    elif what == "child":
        process.write("process", at, state="child", child=draw.randrange(9))
    else:
        process.beats(at, quanta={"q": draw.choice([1.0, 3.0])})
        if draw.random() < 0.2:
            process.forgets()


def end(draw: random.Random, process: Process, at: float, task: str) -> None:
    """Let it end, or another say so."""
    goes_on = "found, and it goes on"
    how = draw.choice(["", "exit", "found", "found", goes_on, f"{goes_on}, and dies"])
    if how == "exit":
        process.ends(at)
    elif how:
        process.ends(at, "dead")
    if how.startswith(goes_on):
        process.runs(task, at + 1)
    if how.endswith("and dies"):
        process.ends(at + 3, "dead")


def files(draw: random.Random, processes: list[Process]) -> list[tuple[str, list[str], str]]:
    """Return the files of their logs, in the order in which they come: any; some come twice."""
    found = []
    for process in processes:
        lines = process.lines
        cuts = sorted({0, *draw.sample(range(len(lines)), min(2, len(lines))), len(lines)})
        for number, (begin, end) in enumerate(pairwise(cuts)):
            name = f"1-n-{process.pid}-{process.boot}-{number}.jsonl"
            torn = draw.choice(["", "", "", '{"v":1,"ki'])
            found.append((name, lines[begin:end], torn))
            if draw.random() < 0.15:
                found.append((f"copy-of-{name}", lines[begin : end + 3], ""))
    draw.shuffle(found)
    return found


def contents(warehouse: Warehouse) -> dict[str, list[str]]:
    """The rows of each table, in one job."""
    rows = (
        warehouse.table(table).drop("file").select(F.lit(table), F.to_json(F.struct("*")))
        for table in TABLES
    )
    found: dict[str, list[str]] = {table: [] for table in TABLES}
    for table, row in reduce(DataFrame.unionAll, rows).collect():
        found[table].append(row)
    return {table: sorted(each) for table, each in found.items()}


@pytest.mark.parametrize("seed", SEEDS)
def test_bit_by_bit_or_at_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(warehouses, "FEW", 2)
    draw = random.Random(seed)
    tasks = [f"t{number}" for number in range(120)]
    processes = [Process(node=f"celery@{number % 3}", boot=f"p{number}") for number in range(7)]
    for number, process in enumerate(processes):
        process.parent = draw.choice([None, *(f"p{each}" for each in range(number))])
        work(draw, process, tasks)
    silent = Process(node="celery@0", boot="silent").boots(0)  # since the first of these runs
    silent.beats(1)
    silent.forgets()
    silent.beats(2)
    of_silent = f"1-n-{silent.pid}-silent-0.jsonl", silent.lines, ""
    came = [of_silent, *files(draw, processes)]
    logs, slowly = Logs(tmp_path / "logs"), Warehouse(spark, tmp_path / "slowly")
    half = 1 + len(came) // 2
    unread = logs.write("_open-1-n-7-gone-0.jsonl", [])
    for first in (0, half):
        for name, lines, torn in came[first : first + half]:
            logs.write(name, lines, torn)
        ingest(slowly, logs.folder)
        unread.unlink(missing_ok=True)  # it is read nowhere, and was there
    assert [row["boot"] for row in slowly.table("unread").collect()] == ["gone"]
    at_once = Warehouse(spark, tmp_path / "at-once")
    ingest(at_once, logs.folder)
    found = contents(at_once)
    assert contents(slowly) == found
    assert len(found["attempts"]) > len(tasks)


def test_which_folders_are_put_together() -> None:
    assert overgrown([1] * 8) == 8
    assert overgrown([1] * 9) == 0
    assert overgrown([1000, *[1] * 8]) == 1
    assert overgrown([2**n for n in range(12, 0, -1)]) == 12
    assert overgrown([]) == 0


def test_folders_are_as_many_as_the_logarithm() -> None:
    sizes: list[int] = []
    written = 0
    for _ in range(1000):
        sizes.append(1)
        first = overgrown(sizes)
        if first < len(sizes):
            written += sum(sizes[first:])
            sizes[first:] = [sum(sizes[first:])]
    assert sum(sizes) == 1000
    assert len(sizes) <= 11
    assert written <= 1000 * 10
