"""A cluster with two executors, and spark-submit, give the tables that one machine gives."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from celery_fair.pipeline.warehouse import read_pointer
from tests.apart.commands import AT_ONCE, SPARK_SUBMIT, SUBMIT, ask, rows
from tests.apart.standalone import standalone
from tests.pipeline.planted import Logs, Process

EXECUTORS = 2
# Under spark-submit what is told on stderr goes to stdout.
QUIETLY = ("--json", "--quiet")
SUPPOSED = ("--scenario", "shared: a.quantum=1 cost=runtime")


def fleet() -> Iterator[Process]:
    """Six workers with backlogs of two queues, one of which is killed; some messages come back."""
    draw = random.Random(5)
    for number in range(6):
        worker = Process(node=f"celery@{number}").boots(0, concurrency=2, quanta={"a": 3, "b": 1})
        for queue, quantum in {"a": 3.0, "b": 1.0}.items():
            worker.says(queue, "ready", 0.1, quantum)
            worker.write("settings", 0.1, queue=queue, quantum=quantum, policy="dwrr")
        for each in range(200):
            at, queue = 0.2 + each * 0.7, draw.choice("aaab")
            fields = {
                "queue": queue,
                "task": f"t{draw.randrange(2)}",
                "cost_key": draw.choice("xy"),
            }
            runtime = draw.expovariate(2) + 0.001
            worker.runs(f"{number}-{each}", at, runtime, published=at - draw.random(), **fields)
        worker.runs("everywhere", 151)
        worker.rejects(f"back-{number}", 152, published=150)
        worker.starts(f"begun-{number}", 153, published=150)
        worker.ends(200, "dead" if number == 0 else "exit")
        yield worker


class Answers:
    """What was answered about the logs: a warehouse's tables, and waits of a replay."""

    def __init__(self, folder: Path) -> None:
        self.warehouse, self.report = folder / "warehouse", folder / "report.html"
        self.waits: list[dict[str, Any]] = []

    def ask(self, *program: str, options: tuple[str, ...] = ()) -> None:
        """Have the gold tables made, which the report shows, and a trace replayed."""
        report = ("report", *QUIETLY, *options, self.warehouse, self.report)
        supposed = ("whatif", *QUIETLY, *options, self.warehouse, *SUPPOSED)
        self.waits = ask(program, *report, "+", *supposed)[-1]

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        return {name: rows(self.warehouse, name) for name in read_pointer(self.warehouse).tables}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    planted = Logs(tmp_path_factory.mktemp("logs"))
    planted.plant(*fleet())
    planted.write("garbage.jsonl", ["no record"], torn='{"v":1,')
    return planted.folder


@pytest.fixture(scope="module")
def alone(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """Those of one machine."""
    answers = Answers(tmp_path_factory.mktemp("alone"))
    answers.ask(*AT_ONCE, "ingest", *QUIETLY, str(logs), str(answers.warehouse), "+")
    return answers


def check_same(found: Answers, expected: Answers) -> None:
    here, there = found.tables(), expected.tables()
    assert here.keys() == there.keys() >= {"fairness", "audit", "waits", "costs", "capacity"}
    for name, table in there.items():
        assert len(here[name]) == len(table), name
        # Every file can be read as a whole, and one run changes nothing.
        assert bool(table) == (name not in ("unread", "gaps", "replaced", "changes")), name
        for row, other in zip(here[name], table, strict=True):
            check_equal(row, other)
    assert len(found.waits) == len(expected.waits) > 0
    for row, other in zip(found.waits, expected.waits, strict=True):
        check_equal(row, other)


def check_equal(row: dict[str, Any], other: dict[str, Any]) -> None:
    """Sums may have been added up in another order; a map's entries have none."""
    assert row.keys() == other.keys()
    for name, value in other.items():
        if isinstance(value, float) and row[name] is not None:
            assert row[name] == pytest.approx(value, rel=1e-9, nan_ok=True), (name, row, other)
        elif isinstance(value, list):
            assert sorted(row[name]) == sorted(value), (name, row, other)
        else:
            assert row[name] == value, (name, row, other)


def test_spark_submit(logs: Path, alone: Answers, tmp_path: Path) -> None:
    answers = Answers(tmp_path)
    ask((SPARK_SUBMIT, SUBMIT), "ingest", *QUIETLY, logs, answers.warehouse)
    answers.ask(SPARK_SUBMIT, AT_ONCE[-1])
    check_same(answers, alone)


def test_cluster(logs: Path, alone: Answers, tmp_path: Path) -> None:
    """Half of the work by spark-submit, the other half by a command with `--master`."""
    answers = Answers(tmp_path)
    with standalone(tmp_path / "cluster", EXECUTORS) as cluster:
        master = ("--master", cluster.url)
        ask((SPARK_SUBMIT, *master, SUBMIT), "ingest", *QUIETLY, logs, answers.warehouse)
        assert cluster.executors() == EXECUTORS
        answers.ask(*AT_ONCE, options=master)
        assert cluster.executors() == 2 * EXECUTORS
    check_same(answers, alone)
