"""Tasks whose process does not live to write their end: the main process does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.brokers import Space
from tests.eventlog.reading import processes, records
from tests.eventlog.test_worker import APP, check_schema, gate, settings
from tests.integration.gate import Gate
from tests.publishing import publish
from tests.waiting import wait_for
from tests.workers import StartWorker, WorkerProcess

pytestmark = pytest.mark.either_broker

__all__ = ["gate"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def start(start_worker: StartWorker, space: Space, log: Path, **options: Any) -> WorkerProcess:
    return start_worker(
        space,
        app=options.pop("app", APP),
        pool="prefork",
        concurrency=1,
        queues=["a"],
        conf=settings(log),
        **options,
    )


def hold(worker: WorkerProcess, gate: Gate, task: str = "plain", **headers: Any) -> str:
    """Have the worker's only process at work; return the task's id."""
    ids = publish(worker.broker_url, {"a": 1}, task, [str(gate.path)], headers=headers).all()
    worker.records.started.wait_ids(ids)
    return ids[0]


def ended(log: Path, id_: str) -> list[dict[str, Any]]:
    return [record for record in records(log, "finished") if record["id"] == id_]


def check(worker: WorkerProcess, log: Path, id_: str, state: str, exception: str) -> None:
    """One end, by the main process, that fits the child's start."""
    wait_for(lambda: ended(log, id_), 30, lambda: f"the end of {id_}\n{worker.log()}")
    # What is started next, a process that was to end has ended before.
    (after,) = publish(worker.broker_url, {"a": 1}, "plain").all()
    worker.records.finished.wait_ids([after])
    assert worker.stop() == 0
    (end,) = ended(log, id_)
    (begin,) = (record for record in records(log, "started") if record["id"] == id_)
    assert (end["state"], end["exception"], end["broken_off"]) == (state, exception, True)
    same = ("id", "retries", "task", "queue", "cost_key")
    assert [end[name] for name in same] == [begin[name] for name in same]
    assert end["pid"] == worker.pid
    assert end["runtime"] > 0
    assert "broken_off" not in ended(log, after)[0]
    check_schema(log)
    for process, found in processes(log).items():
        assert [record["seq"] for record in found] == list(range(len(found))), process


def test_a_hard_time_limit(space: Space, start_worker: StartWorker, gate: Gate, log: Path) -> None:
    worker = start(start_worker, space, log)
    # It counts from when the process accepts the task, which is before the task's first line.
    id_ = hold(worker, gate, timelimit=[5, None], retries=2)
    check(worker, log, id_, "FAILURE", "TimeLimitExceeded")
    assert ended(log, id_)[0]["retries"] == 2


@pytest.mark.either_broker
@pytest.mark.parametrize("signal", ["SIGTERM", "SIGKILL"])
def test_a_task_that_is_terminated(
    space: Space, start_worker: StartWorker, gate: Gate, log: Path, signal: str
) -> None:
    worker = start(start_worker, space, log)
    id_ = hold(worker, gate)
    assert worker.control("revoke", task_id=id_, terminate=True, signal=signal)
    check(worker, log, id_, "REVOKED", "Terminated")


@pytest.mark.either_broker
@pytest.mark.parametrize("task", ["before", "plain"])
def test_a_child_that_is_killed(
    space: Space, start_worker: StartWorker, gate: Gate, log: Path, task: str
) -> None:
    worker = start(start_worker, space, log)
    id_ = hold(worker, gate, task)
    os.kill(worker.records.started.read()[0].pid, 9)
    check(worker, log, id_, "FAILURE", "WorkerLostError")


ENDS = """
from tests.apps.once import *

@app.task(bind=True, name="ends")
def ends(self, seq, gate):
    start(self, seq)
    raise SystemExit(3)
"""


def test_a_task_that_ends_its_process(
    space: Space, start_worker: StartWorker, gate: Gate, log: Path
) -> None:
    worker = start(start_worker, space, log, app=ENDS)
    check(worker, log, hold(worker, gate, "ends"), "FAILURE", "WorkerLostError")
