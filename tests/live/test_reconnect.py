"""What was told to a worker while it ran still holds when its broker has been away."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from tests.brokers import Space
from tests.publishing import publish
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker, WorkerProcess

CONF: dict[str, Any] = {
    "fair_queues": {"a": {}, "b": {}},
    "fair_logical_queues": {
        "sms": {"levels": {"sms.slow": [0, 4], "sms.fast": [5, 9]}},
        "mail": {"levels": {"mail.slow": [0, 4], "mail.fast": [5, 9]}},
    },
}
MAIL = {"mail.slow", "mail.fast"}


@pytest.mark.wide
def test_what_was_set_survives(own_space: Space, start_worker: StartWorker) -> None:
    worker = start_worker(own_space, app="tests.apps.levels", conf=CONF, args=["-Q", "a,b,sms"])
    changes = {"quantum": 7, "rate": "40/s", "burst": 3, "prefetch": 11, "max_in_flight": 1}
    assert "ok" in worker.control("fair_set", queue="a", options=changes)
    assert "ok" in worker.control("fair_pause", queue="b")
    assert "ok" in worker.control("cancel_consumer", queue="sms")
    assert "ok" in worker.control("add_consumer", queue="mail")
    wait_equal(lambda: set(worker.control("fair_status")), {"a", "b"} | MAIL)
    before = told(worker)

    own_space.server.restart()

    ids = publish(own_space.url, {"a": 5, "b": 5, "mail.fast": 5})
    worker.records.started.wait_once([*ids["a"], *ids["mail.fast"]])
    assert not worker.records.started.times(ids["b"])
    assert told(worker) == before
    assert "ok" in worker.control("fair_resume", queue="b")
    worker.records.started.wait_once(ids["b"])


def answer(worker: WorkerProcess) -> Any:
    """The worker's status, if the client's connection is not one to the broker of before."""
    with suppress(*worker.client.connection_for_write().recoverable_connection_errors):
        return worker.control("fair_status", timeout=5)


def told(worker: WorkerProcess) -> dict[str, Any]:
    figures = ("quantum", "rate", "burst", "max_in_flight", "held")
    status = wait_for(lambda: answer(worker), 60, "an answer")
    windows = {"a": status["a"]["window"]}
    return {queue: [row[name] for name in figures] for queue, row in status.items()} | windows
