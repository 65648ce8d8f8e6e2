"""The same faults on Celery's own worker, to show that the matrix can tell.

Each is a fault at a given method, so that what Celery does is the same each
time. (A message that ends the worker and stays queued is in
`tests/integration/test_malformed.py`.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.brokers import Space
from tests.faults.accounting import Account
from tests.faults.proxy import Proxy
from tests.integration.conftest import gate
from tests.integration.depths import left
from tests.integration.gate import Gate
from tests.publishing import publish
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker, WorkerProcess

__all__ = ["gate"]

pytestmark = [pytest.mark.newest, pytest.mark.wide]

LATE = {"task_acks_late": True}


@pytest.fixture
def proxy(rabbitmq_space: Space) -> Iterator[Proxy]:
    with Proxy(rabbitmq_space) as proxy:
        yield proxy


def vanilla(start: StartWorker, url: str, **options: Any) -> WorkerProcess:
    return start(url, fair=False, queues=["a"], **options)


def account(worker: WorkerProcess, ids: list[str]) -> Account:
    return Account.of(ids, worker.records, {}, ())


def drained(worker: WorkerProcess, space: Space, ids: list[str]) -> Account:
    wait_equal(lambda: left(space, "a"), 0)
    worker.records.finished.wait_ids(ids)
    return account(worker, ids)


def wait_started_twice(worker: WorkerProcess, space: Space, ids: list[str], least: int) -> None:
    """What the broker has no acknowledgement of comes again; a child's record may come after it."""
    drained(worker, space, ids)
    wait_for(
        lambda: len(account(worker, ids).started_twice) >= least,
        60,
        lambda: f"{worker.records.started}",
    )


@pytest.mark.parametrize(
    ("pool", "conf"), [("solo", LATE), ("prefork", {})], ids=["late-solo", "early-prefork"]
)
def test_cut_before_an_ack_starts_tasks_twice(
    rabbitmq_space: Space, proxy: Proxy, start_worker: StartWorker, pool: str, conf: Any
) -> None:
    """Under prefork the early acknowledgement leaves when the task has started already."""
    worker = vanilla(start_worker, proxy.url, pool=pool, conf=conf)
    trap = proxy.on("ack", nth=3)
    ids = publish(rabbitmq_space.url, {"a": 10}, "nap", [0.01]).all()
    trap.wait()

    wait_started_twice(worker, rabbitmq_space, ids, 1)


@pytest.mark.parametrize("conf", [{}, LATE], ids=["early", "late"])
def test_black_hole_starts_tasks_twice(
    rabbitmq_space: Space, proxy: Proxy, start_worker: StartWorker, conf: Any
) -> None:
    """The worker writes acknowledgements into it, and goes on."""
    worker = vanilla(start_worker, proxy.url, pool="prefork", concurrency=2, conf=conf)
    trap = proxy.on("ack", nth=3, action="hold")
    ids = publish(rabbitmq_space.url, {"a": 10}, "nap", [0.01]).all()
    trap.wait()
    worker.records.started.wait(6)
    proxy.cut()
    proxy.release()

    wait_started_twice(worker, rabbitmq_space, ids, 3)


def test_kill_loses_what_was_acknowledged_early(
    rabbitmq_space: Space, start_worker: StartWorker, gate: Gate
) -> None:
    first = vanilla(start_worker, rabbitmq_space.url, pool="threads", concurrency=2)
    held = gate.hold(first, "a", 2)
    wait_equal(lambda: left(rabbitmq_space, "a"), 0)
    first.kill()
    first.process.end()

    second = vanilla(start_worker, rabbitmq_space.url, pool="threads", concurrency=2)

    later = publish(rabbitmq_space.url, {"a": 2}, "nap", [0]).all()
    second.records.finished.wait_ids(later)
    assert account(second, held).unfinished == set(held)


def test_kill_starts_twice_what_is_acknowledged_late(
    rabbitmq_space: Space, start_worker: StartWorker, gate: Gate
) -> None:
    options = {"pool": "threads", "concurrency": 2, "conf": LATE}
    first = vanilla(start_worker, rabbitmq_space.url, **options)
    held = gate.hold(first, "a", 2)
    first.kill()
    first.process.end()
    gate.open()

    second = vanilla(start_worker, rabbitmq_space.url, **options)

    wait_started_twice(second, rabbitmq_space, held, len(held))


def test_visibility_timeout_starts_twice_what_is_acknowledged_late(
    redis_space: Space, start_worker: StartWorker, gate: Gate
) -> None:
    """A task longer than it is a lost one, for Redis."""
    restore = {"unacked_restore_interval": 1, "unacked_restore_throttle": 1}
    conf = LATE | {"broker_transport_options": {"visibility_timeout": 1} | restore}
    first = vanilla(start_worker, redis_space.url, pool="threads", concurrency=2, conf=conf)
    (held,) = gate.hold(first, "a")
    wait_for(lambda: first.records.started.times([held])[held] > 1, 60, first.log)
