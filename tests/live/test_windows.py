"""What a worker holds of its queues: a window of each, and no message more."""

from __future__ import annotations

from typing import Any

import pytest

from tests.brokers import Space
from tests.integration.depths import ready
from tests.publishing import Ids, publish
from tests.waiting import wait_equal
from tests.workers import StartWorker, WorkerProcess

EACH = 60
QUEUES: dict[str, dict[str, Any]] = {
    "slow": {},
    "fast": {"class": 1},
    "partner": {"rate": "1/s", "burst": 5},
    "fixed": {"prefetch": 3},
    "narrow": {"prefetch": 2, "class": 1},
    "wide": {"prefetch": 25},
    "rest": {},
}
WINDOWS = {"slow": 16, "fast": 32, "partner": 10, "fixed": 3, "narrow": 2, "wide": 25}
CONF = {"fair_policy": "strict", "fair_queues": QUEUES}


@pytest.fixture(scope="module")
def worker(module_space: Space, start_module_worker: StartWorker) -> WorkerProcess:
    """Windows sum up to 144 at the start: 16, and 32 in class 1, but for what bounds them."""
    args = ["--prefetch-multiplier", "144"]
    return start_module_worker(module_space, queues=list(QUEUES), conf=CONF, args=args)


def paused(worker: WorkerProcess, *queues: str) -> Ids:
    """Have so many messages in queues that are paused."""
    for queue in queues:
        assert "ok" in worker.control("fair_pause", queue=queue)
    return publish(worker.broker_url, dict.fromkeys(queues, EACH), persistent=False)


def wait_held(worker: WorkerProcess, space: Space, held: dict[str, int]) -> None:
    """Until the worker has so many, and the broker the rest.

    From Redis a worker takes while it works.
    """

    def found() -> dict[str, tuple[int, int]]:
        worker.records.started.wait_once(publish(worker.broker_url, {"rest": 1}).all())
        status = worker.control("fair_status")
        return {queue: (status[queue]["buffered"], ready(space, queue)) for queue in held}

    wait_equal(found, {queue: (count, EACH - count) for queue, count in held.items()})


def resume(worker: WorkerProcess, *queues: str) -> None:
    for queue in queues:
        assert "ok" in worker.control("fair_resume", queue=queue)


def test_a_worker_holds_a_window_of_each_queue(worker: WorkerProcess, module_space: Space) -> None:
    """By class and quantum; ten where there is one a second and a burst of five."""
    status = worker.control("fair_status")
    assert {queue: status[queue]["window"] for queue in WINDOWS} == WINDOWS

    ids = paused(worker, *WINDOWS)
    wait_held(worker, module_space, WINDOWS)

    assert "ok" in worker.control("fair_set", queue="partner", options={"rate": None})
    resume(worker, *WINDOWS)
    starts = worker.records.started.wait_once(ids.all())
    for queue in WINDOWS:
        assert [start.id for start in starts if start.queue == queue] == ids[queue]


def test_who_is_served_is_refilled_and_nobody_else(
    worker: WorkerProcess, module_space: Space
) -> None:
    held = {"narrow": 2, "fixed": 3}
    ids = paused(worker, *held)
    wait_held(worker, module_space, held)

    resume(worker, "narrow")
    worker.records.started.wait_once(ids["narrow"])

    wait_held(worker, module_space, {"fixed": 3})
    resume(worker, "fixed")
    worker.records.started.wait_once(ids["fixed"])


def test_what_is_above_a_window_that_shrinks_is_kept(
    worker: WorkerProcess, module_space: Space
) -> None:
    ids = paused(worker, "wide")
    wait_held(worker, module_space, {"wide": 25})

    assert "ok" in worker.control("fair_set", queue="wide", options={"prefetch": 3})
    wait_equal(lambda: worker.control("fair_status")["wide"]["window"], 3)
    resume(worker, "wide")

    worker.records.started.wait_once(ids.all())
