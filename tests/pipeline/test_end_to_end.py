"""From real workers, one of which is killed, to verdicts: as the test itself has seen it."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.brokers import Space
from tests.eventlog.reading import records
from tests.integration.depths import left, unsettled
from tests.integration.gate import Gate
from tests.once.conftest import DeadLetters, dead_letters, gate
from tests.pipeline.test_commands import run
from tests.publishing import publish
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker, WorkerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["dead_letters", "gate"]

QUANTA = {"a": {"quantum": 3}, "b": {"quantum": 1}}
FIRST, EACH = {"a": 45, "b": 15}, {"a": 100, "b": 100}
HELD = ("before", "after")
PROCESSES = len(HELD)


@pytest.fixture
def space(rabbitmq_space: Space) -> Space:
    return rabbitmq_space


def test_verdicts_are_what_happened(
    spark: SparkSession,
    space: Space,
    start_worker: StartWorker,
    gate: Gate,
    dead_letters: DeadLetters,
    tmp_path: Path,
) -> None:
    log, warehouse = tmp_path / "log", tmp_path / "warehouse"
    options: dict[str, Any] = {
        "app": "tests.apps.once",
        "pool": "prefork",
        "concurrency": PROCESSES,
        "queues": list(QUANTA),
        "conf": {"fair_event_log": str(log), "fair_queues": QUANTA},
    }
    victim = start_worker(space, **options)

    def published_now(counts: dict[str, int], task: str, at: str = "") -> list[str]:
        return publish(space.url, counts, task, [at, 0.01], headers=now()).all()

    first = published_now(FIRST, "before")
    # Both processes are in the midst of a task when they are killed, not before its first line or
    # after its last, when the log has more to say of it than the task itself, or less.
    held = [id_ for task in HELD for id_ in published_now({"a": 1}, task, str(gate.path))]
    rest = [id_ for task in ("before", "after") for id_ in published_now(EACH, task)]
    published = [*first, *held, *rest]
    victim.records.started.wait_ids(held)
    wait_for(lambda: unsettled(space, *QUANTA) > PROCESSES, 60, "messages to be buffered")
    victim.kill()
    victim.process.end()
    gate.open()

    heir = start_worker(space, **options)
    started, finished = heir.records.started, heir.records.finished
    wait_equal(lambda: left(space, *QUANTA), 0, timeout=60)
    wait_for(lambda: log_says_dead(log, victim), 60, "a word of the victim's end")
    assert heir.stop() == 0
    truth = expected(
        published,
        Counter(record.id for record in started.read()),
        {record.id for record in finished.read()},
        set(dead_letters()),
    )

    ingested = run("ingest", log, warehouse)
    assert ingested.exit_code == 0, ingested.output
    ids = tmp_path / "ids"
    audited = run("audit", warehouse, "--json", "--ids-out", ids, "--quiet")
    assert audited.exit_code == 0, audited.output

    verdicts = {row["id"]: row["verdict"] for row in rows(spark, warehouse, "audit")}
    assert Counter(verdicts.values()) == Counter(truth.values())
    assert verdicts == truth
    assert {"FINISHED", "REPLAYABLE", "LOST", "DEAD_LETTERED"} == set(truth.values())
    replayable = {id_ for id_, verdict in truth.items() if verdict == "REPLAYABLE"}
    assert {json.loads(line)["id"] for line in ids.read_text().splitlines()} == replayable


def now() -> dict[str, float]:
    return {"x-fair-published": time.time()}


def log_says_dead(log: Path, victim: WorkerProcess) -> bool:
    said = records(log, "process")
    dead = {record["pid"] for record in said if record["state"] == "dead"}
    children = {
        record["pid"]
        for record in said
        if record["state"] == "boot" and record["node"] == victim.hostname
    }
    return victim.pid in dead and children <= dead


def expected(
    published: list[str], starts: Counter[str], finished: set[str], dead: set[str]
) -> dict[str, str]:
    """What is to be said of each message, by what tasks and dead letters themselves have told."""

    def verdict(id_: str) -> str:
        if starts[id_] > 1:
            return "DUPLICATE"
        if id_ in dead:
            return "DEAD_LETTERED" if starts[id_] else "REPLAYABLE"
        return "FINISHED" if id_ in finished else "LOST"

    return {id_: verdict(id_) for id_ in published if starts[id_] or id_ in dead}


def rows(spark: SparkSession, warehouse: Path, table: str) -> list[Any]:
    from celery_fair.pipeline.warehouse import Warehouse

    return Warehouse(spark, warehouse).table(table).collect()
