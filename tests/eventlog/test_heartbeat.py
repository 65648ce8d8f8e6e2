"""Signs of life: of each process, for itself."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.brokers import Space
from tests.eventlog.reading import records, states
from tests.eventlog.test_worker import check_schema, gate, settings
from tests.integration.gate import Gate
from tests.publishing import publish
from tests.waiting import wait_for
from tests.workers import StartWorker

__all__ = ["gate"]

OFTEN = """
from celery_fair.worker.observe import recorder
from tests.apps.once import *

recorder._HEARTBEAT = recorder._SWEEP = 0.1
"""


def test_each_process_of_a_pool_beats(
    rabbitmq_space: Space, start_worker: StartWorker, gate: Gate, tmp_path: Path
) -> None:
    """One that waits, and one that is at work; one that is killed is told from them."""
    log = tmp_path / "log"
    options = {"pool": "prefork", "concurrency": 2, "queues": ["a"], "conf": settings(log)}
    worker = start_worker(rabbitmq_space, app=OFTEN, **options)
    ids = publish(rabbitmq_space.url, {"a": 1}, "plain", [str(gate.path)]).all()
    (start,) = worker.records.started.wait_ids(ids)

    def beats(pid: int) -> int:
        lives = [life for (_, each, _), life in states(log).items() if each == pid]
        return lives[0].count("heartbeat") if lives else 0

    def pids() -> set[int]:
        return {pid for _, pid, _ in states(log)}

    wait_for(lambda: len(pids()) == 3, 60, worker.log)
    first = pids()
    wait_for(lambda: all(beats(pid) > 3 for pid in first), 60, lambda: f"{states(log)}")
    assert not [life for life in states(log).values() if {"dead", "exit"} & {*life}]

    (idle,) = first - {worker.pid, start.pid}
    os.kill(idle, signal.SIGKILL)
    wait_for(lambda: "dead" in str(lives(log, idle)), 60, lambda: f"{states(log)}")
    count = beats(start.pid)
    wait_for(lambda: beats(start.pid) > count + 3, 60, lambda: f"{states(log)}")
    gate.open()
    worker.records.finished.wait_ids(ids)
    assert worker.stop() == 0
    check_schema(log)
    for (_, pid, _), life in states(log).items():
        assert life[-1] == ("dead" if pid == idle else "exit"), pid
    of_child = [r for r in records(log, "process") if r["pid"] == start.pid]
    assert {r["heartbeat"] for r in of_child} == {100_000}
    assert len({r["parent"] for r in of_child}) == 1


def lives(log: Path, pid: int) -> list[list[str]]:
    return [life for (_, each, _), life in states(log).items() if each == pid]
