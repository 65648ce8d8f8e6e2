"""A worker with nothing to do: asleep, and awake at once when there is."""

from __future__ import annotations

import time
from statistics import median
from threading import Event

import psutil
import pytest
from celery import Celery

from tests.brokers import Space
from tests.fairness.ten_queues import FAIR, QUANTA
from tests.waiting import wait_for
from tests.workers import StartWorker, WorkerProcess

pytestmark = pytest.mark.newest

POOLS = {"solo": 1, "threads": 4, "prefork": 2}
SECONDS = 2
MESSAGES = 11


@pytest.mark.parametrize("pool", POOLS)
def test_idle_worker(space: Space, start_worker: StartWorker, pool: str) -> None:
    worker = start_worker(space, pool=pool, concurrency=POOLS[pool], queues=QUANTA, conf=FAIR)
    assert_asleep(worker)

    delays = [delay_of_a_start(worker, f"p{number % 10}") for number in range(MESSAGES)]

    print(f"start after {median(delays) * 1000:.1f} ms, at most {max(delays) * 1000:.1f} ms")
    assert median(delays) < 0.25
    assert max(delays) < 2


def test_idle_worker_that_asks(redis_space: Space, start_worker: StartWorker) -> None:
    """Each queue less and less often while all are empty, down to every 50 ms."""
    queues = {name: {"fetch": "pull"} for name in ("a", "b")}
    worker = start_worker(redis_space, queues=list(queues), conf={"fair_queues": queues})
    most = 1.2 * len(queues) / 0.05
    wait_for(lambda: asked(redis_space, 0.5) < most, 60, "the worker to settle")
    questions = asked(redis_space, SECONDS)
    print(f"{questions:.1f} questions a second, {usage(worker, SECONDS)[0]:.1%} of a processor")
    assert 0 < questions < most


def asked(space: Space, seconds: float) -> float:
    """How many scripts a second a Redis runs: one asks a queue, in the lists of its priorities."""

    def ran() -> int:
        return int(space.server.client.info("commandstats")["cmdstat_evalsha"]["calls"])

    began, before = time.monotonic(), ran()
    Event().wait(seconds)
    return (ran() - before) / (time.monotonic() - began)


def assert_asleep(worker: WorkerProcess, most: float = 20) -> None:
    """No processor time to speak of, and hardly ever awake: at the most so often a second."""
    wait_for(lambda: usage(worker, 0.5)[1] < most, 60, "the worker to settle")
    cpu, wakings = usage(worker, SECONDS)
    print(f"{cpu:.1%} of a processor, awake {wakings:.1f} times a second")
    assert cpu < 0.05
    assert wakings < most


def usage(worker: WorkerProcess, seconds: float) -> tuple[float, float]:
    """The main process's share of a processor, and how often a second it went to sleep."""
    process = psutil.Process(worker.pid)
    sleeps, cpu, began = (
        process.num_ctx_switches().voluntary,
        worker.cpu_seconds(),
        time.monotonic(),
    )
    Event().wait(seconds)  # idleness has no end that could be waited for
    passed = time.monotonic() - began
    slept = process.num_ctx_switches().voluntary - sleeps
    return (worker.cpu_seconds() - cpu) / passed, slept / passed


def delay_of_a_start(worker: WorkerProcess, queue: str) -> float:
    """Seconds from the call that publishes a message to its start on an idle worker."""
    client: Celery = worker.client
    before = time.monotonic_ns()
    task_id = client.send_task("noop", [0], queue=queue).id
    started = worker.records.started.wait_once([task_id], timeout=15)[0]
    return (started.monotonic_ns - before) / 1e9
