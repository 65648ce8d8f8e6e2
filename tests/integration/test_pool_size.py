"""A prefork pool that grows, shrinks, and loses children: slots follow it at once."""

from __future__ import annotations

from pathlib import Path
from signal import SIGKILL

import psutil
import pytest

from tests.brokers import Space
from tests.integration.depths import left
from tests.integration.gate import Gate
from tests.publishing import publish
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker, WorkerProcess

pytestmark = pytest.mark.either_broker

QUEUES = ["a", "b"]


@pytest.fixture(scope="module")
def worker(module_space: Space, start_module_worker: StartWorker) -> WorkerProcess:
    return start_module_worker(module_space, pool="prefork", concurrency=1, queues=QUEUES)


def pool_size(worker: WorkerProcess) -> int:
    return len(worker.inspect("stats")["pool"]["processes"])


def active(worker: WorkerProcess) -> set[str]:
    """The tasks that run, as far as the main process has heard."""
    return {entry["id"] for entry in worker.inspect("active")}


def status(worker: WorkerProcess, figure: str) -> int:
    """A figure of `fair status`, over all queues."""
    return sum(queue[figure] for queue in worker.control("fair_status").values())


def test_pool_grows_and_shrinks(worker: WorkerProcess, module_space: Space, gate: Gate) -> None:
    held = gate.hold(worker, "a")
    waiting = publish(module_space.url, {"b": 2}, "hold", [str(gate.path)])
    assert not worker.records.started.times(waiting.all())

    assert "ok" in worker.control("pool_grow", n=2)

    worker.records.started.wait_once(waiting.all())
    wait_equal(lambda: active(worker), {*held, *waiting.all()})
    gate.open()
    worker.records.finished.wait_once([*held, *waiting.all()])
    wait_equal(lambda: active(worker), set())  # a child at work is not taken from the pool

    assert "ok" in worker.control("pool_shrink", n=2)
    wait_equal(lambda: pool_size(worker), 1)
    worker.records.started.wait_once(publish(module_space.url, dict.fromkeys(QUEUES, 5)).all())


def test_shrunk_pool_runs_fewer_at_once(
    worker: WorkerProcess, module_space: Space, gate: Gate
) -> None:
    held = gate.hold(worker, "a")
    behind = publish(module_space.url, {"a": 1, "b": 1})
    if module_space.kind == "rabbitmq":  # from Redis nothing is taken while no slot is free
        wait_equal(lambda: status(worker, "buffered"), 2)
    wait_equal(lambda: active(worker), set(held))
    assert status(worker, "in_flight") == 1  # none waits in the pool
    gate.open()
    worker.records.started.wait_once(behind.all())


@pytest.mark.parametrize("limit", ["time_limit", "soft_time_limit"])
def test_time_limit_frees_the_slot(
    worker: WorkerProcess, module_space: Space, gate: Gate, limit: str
) -> None:
    slow = publish(module_space.url, {"a": 1}, "hold", [str(gate.path)], **{limit: 3}).all()
    after = publish(module_space.url, {"a": 2}).all()

    worker.records.started.wait_once([*slow, *after])
    assert not worker.records.finished.times(slow)
    wait_equal(lambda: left(module_space, *QUEUES), 0)
    said = f"{'Soft' if 'soft' in limit else 'Hard'} time limit (3s) exceeded"
    wait_for(lambda: said in worker.log(), 30, worker.log)


def test_running_task_is_terminated(worker: WorkerProcess, module_space: Space, gate: Gate) -> None:
    held = gate.hold(worker, "a")
    after = publish(module_space.url, {"a": 2}).all()
    worker.control("revoke", task_id=held[0], terminate=True)

    worker.records.started.wait_once(after)
    gate.open()
    wait_equal(lambda: left(module_space, *QUEUES), 0)
    assert not worker.records.finished.times(held)


def test_lost_child_frees_the_slot(worker: WorkerProcess, module_space: Space, gate: Gate) -> None:
    held = gate.hold(worker, "a")
    after = publish(module_space.url, {"a": 2}).all()
    runner = next(record for record in worker.records.started.read() if record.id == held[0])
    psutil.Process(runner.pid).send_signal(SIGKILL)

    worker.records.started.wait_once(after)
    assert worker.running


def test_max_tasks_per_child(space: Space, start_worker: StartWorker) -> None:
    worker = start_worker(
        space, pool="prefork", concurrency=2, queues=QUEUES, args=["--max-tasks-per-child=4"]
    )
    ids = publish(space.url, dict.fromkeys(QUEUES, 10))

    starts = worker.records.started.wait_once(ids.all())
    assert len({record.pid for record in starts}) >= 5
    wait_equal(lambda: left(space, *QUEUES), 0)


def test_a_pool_that_shrinks_ends_nothing_that_runs(
    space: Space, start_worker: StartWorker
) -> None:
    """Though jobs are on their way to its processes all the time."""
    worker = start_worker(
        space, app="tests.apps.once", pool="prefork", concurrency=4, queues=QUEUES
    )
    ids = publish(space.url, {"a": 400}, "before", ("", 0.02)).all()
    ids += publish(space.url, {"b": 400}, "plain", ("", 0.02)).all()
    for _ in range(15):
        worker.control("pool_shrink", n=2)
        worker.control("pool_grow", n=2)

    worker.records.finished.wait_once(ids)
    assert "WorkerLostError" not in worker.log()


def test_autoscale(space: Space, start_worker: StartWorker, gate: Gate) -> None:
    worker = start_worker(
        space,
        pool="prefork",
        queues=QUEUES,
        args=["--autoscale=3,1"],
        env={"AUTOSCALE_KEEPALIVE": "1"},
    )
    assert pool_size(worker) == 1

    held = gate.hold(worker, "a", 3)

    more = publish(space.url, {"b": 1}, "hold", [str(gate.path)]).all()
    assert pool_size(worker) == 3
    assert not worker.records.started.times(more)
    gate.open()
    worker.records.finished.wait_once([*held, *more])
    wait_equal(lambda: pool_size(worker), 1)
    worker.records.started.wait_once(publish(space.url, dict.fromkeys(QUEUES, 5)).all())


def test_autoscale_of_what_is_acknowledged_late(
    rabbitmq_space: Space, start_worker: StartWorker, gate: Gate
) -> None:
    """One queue can fill the largest pool: what runs takes no place of what waits."""
    worker = start_worker(
        rabbitmq_space,
        pool="prefork",
        queues=QUEUES,
        args=["--autoscale=4,1"],
        conf={"task_acks_late": True, "fair_queues": {"a": {"prefetch": 1}}},
    )
    held = gate.hold(worker, "a", 4)
    gate.open()
    worker.records.finished.wait_once(held)


FORKLESS = """
import os

from celery.signals import worker_ready
from tests.apps.once import *

fork = os.fork

def limited():
    if os.path.exists(os.environ["LIMIT"]):
        raise BlockingIOError(11, "Resource temporarily unavailable")
    return fork()

@worker_ready.connect
def at_its_limit(**_):
    os.fork = limited
"""


def test_no_process_to_be_had(space: Space, start_worker: StartWorker, tmp_path: Path) -> None:
    """As at a container's limit of processes: no message is to blame, and it tries again."""
    limit = tmp_path / "limit"
    limit.touch()
    worker = start_worker(
        space,
        app=FORKLESS,
        pool="prefork",
        queues=QUEUES,
        args=["--autoscale=3,1"],
        env={"LIMIT": str(limit)},
    )
    ids = publish(space.url, {"a": 5}, "before", ("", 0.1)).all()
    ids += publish(space.url, {"b": 5}, "plain", ("", 0.1)).all()
    worker.records.finished.wait_once(ids)
    assert "The pool cannot start a process" in worker.log()
    assert pool_size(worker) == 1
    limit.unlink()
    publish(space.url, {"a": 9}, "plain", ("", 0.5))
    wait_equal(lambda: pool_size(worker), 3)
