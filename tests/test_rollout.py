"""Fair workers among Celery's own, and away again; and whom a stop is told to."""

from __future__ import annotations

import os
import signal

import pytest

from tests.brokers import Space
from tests.integration.gate import Gate
from tests.preloaded import run_celery
from tests.publishing import publish
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker

pytestmark = pytest.mark.newest

QUEUES = ["a", "b"]
FEW = {"worker_prefetch_multiplier": 1}


def test_there_and_back(rabbitmq_space: Space, start_worker: StartWorker) -> None:
    """One worker of two is fair, and then none: what is published runs once."""
    start = {"queues": QUEUES, "pool": "threads", "concurrency": 2, "conf": FEW}
    vanilla = start_worker(rabbitmq_space, fair=False, **start)
    fair = start_worker(rabbitmq_space, **start)
    ids = publish(rabbitmq_space.url, dict.fromkeys(QUEUES, 60), "doze", [0.05])
    fair.records.started.wait(20)
    assert fair.stop() == 0
    vanilla.records.started.wait_once(ids.all())
    wait_equal(rabbitmq_space.ready, {})
    assert vanilla.stop() == 0
    assert set(rabbitmq_space.depths()) <= {*QUEUES, "dead-letters"}


def test_the_probe(rabbitmq_space: Space, start_worker: StartWorker) -> None:
    worker = start_worker(rabbitmq_space, pool="threads")
    probe = ["-b", rabbitmq_space.url, "inspect", "ping", "-d", worker.hostname, "--timeout", "5"]
    folder = worker.records.prefix.parent
    wait_for(lambda: run_celery(probe, folder, os.environ).returncode == 0, 60)
    assert worker.stop() == 0
    probe[-1] = "0.2"
    assert run_celery(probe, folder, os.environ).returncode != 0


def test_who_tells_the_whole_group_to_stop_ends_tasks(
    rabbitmq_space: Space, start_worker: StartWorker
) -> None:
    """As systemd does by default; told alone, the worker waits for them (the faults' SIGTERM)."""
    worker = start_worker(rabbitmq_space, pool="prefork", queues=["a"])
    gate = Gate()
    publish(rabbitmq_space.url, {"a": 1}, "hold", [str(gate.path)])
    worker.records.started.wait(1)
    os.killpg(worker.pid, signal.SIGTERM)
    worker.wait()
    gate.open()
    assert len(worker.records.finished) == 0
