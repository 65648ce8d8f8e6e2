"""What an operator sees: inspect, stats, task events, Flower."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.brokers import Space
from tests.integration.gate import Gate
from tests.ports import free_port
from tests.processes import Process
from tests.publishing import publish
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker, WorkerProcess

pytestmark = pytest.mark.either_broker

FAIR = {"fair_queues": {"a": {"quantum": 7}, "b": {"quantum": 2, "prefetch": 5}}}
QUEUES = ["a", "b"]


@pytest.fixture(scope="module")
def worker(module_space: Space, start_module_worker: StartWorker) -> WorkerProcess:
    return start_module_worker(
        module_space, pool="threads", concurrency=2, queues=QUEUES, conf=FAIR
    )


@pytest.fixture(scope="module")
def solo(module_space: Space, start_module_worker: StartWorker) -> WorkerProcess:
    """A worker whose events all come in before Celery 5.7, which lost some that threads sent."""
    return start_module_worker(module_space, queues=["e"], args=["-E"])


def test_inspect(worker: WorkerProcess, module_space: Space, gate: Gate) -> None:
    held = gate.hold(worker, "a", 2)
    later = publish(module_space.url, {"b": 1}, countdown=600).all()

    assert {entry["id"] for entry in worker.inspect("active")} == set(held)
    assert worker.inspect("reserved") == []
    assert {queue["name"] for queue in worker.inspect("active_queues")} == set(QUEUES)
    assert held[0] in worker.inspect("query_task", held[0])
    assert "noop" in worker.inspect("registered")

    gate.open()
    wait_equal(lambda: worker.inspect("active"), [])
    wait_for(lambda: worker.inspect("scheduled"), 30, "the ETA to be scheduled")
    assert [entry["request"]["id"] for entry in worker.inspect("scheduled")] == later
    worker.control("revoke", task_id=later[0])


def test_stats(worker: WorkerProcess, module_space: Space, gate: Gate) -> None:
    gate.hold(worker, "a", 2)
    publish(module_space.url, {"b": 20})
    if module_space.kind == "rabbitmq":  # from Redis nothing is taken while no slot is free
        wait_equal(lambda: worker.inspect("stats")["fair"]["b"]["buffered"] > 0, True)

    stats = worker.inspect("stats")

    assert stats["fair"]["a"]["quantum"] == 7
    assert stats["fair"]["b"]["quantum"] == 2
    assert stats["pool"]["max-concurrency"] == 2
    assert stats["broker"]["transport"]
    gate.open()
    wait_equal(lambda: worker.inspect("stats")["total"].get("noop"), 20)


@pytest.fixture
def events(solo: WorkerProcess) -> Iterator[list[dict[str, Any]]]:
    """Every event that the worker sends, from now on."""
    seen: list[dict[str, Any]] = []
    subscribed = Event()

    def heard() -> bool:
        solo.control("heartbeat")
        return bool(seen)

    with solo.client.connection_for_read() as connection:
        receiver = solo.client.events.Receiver(connection, handlers={"*": seen.append})
        receiver.on_consume_ready = lambda *args, **kwargs: subscribed.set()
        thread = Thread(target=receiver.capture, kwargs={"wakeup": False})
        thread.start()
        assert subscribed.wait(60)
        # On Redis the receiver is ready somewhat before the server knows of it.
        wait_for(heard, 30, "an event")
        yield seen
        receiver.should_stop = True
        solo.control("heartbeat")  # an event, so that the receiver looks up
        thread.join()


def test_task_events(
    solo: WorkerProcess, module_space: Space, events: list[dict[str, Any]]
) -> None:
    good, bad = (publish(module_space.url, {"e": 1}, task).all()[0] for task in ("noop", "fail"))

    def kinds(task: str) -> list[str]:
        return [event["type"] for event in events if event.get("uuid") == task]

    wait_equal(lambda: kinds(good), ["task-received", "task-started", "task-succeeded"])
    wait_equal(lambda: kinds(bad), ["task-received", "task-started", "task-failed"])


def test_flower_sees_the_worker(solo: WorkerProcess, module_space: Space, tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "celery", "-b", module_space.url, "flower"]
    flower = Process(
        [*command, "--address=127.0.0.1", f"--port={port}"],
        tmp_path / "flower.log",
        os.environ | {"FLOWER_UNAUTHENTICATED_API": "true"},
        cwd=tmp_path,
    )

    def page(path: str) -> dict[str, Any]:
        with suppress(URLError, OSError), urlopen(f"http://127.0.0.1:{port}/{path}") as answer:
            return dict(json.load(answer))
        return {}

    def hears() -> bool:
        """Whether it has had an event of the worker's, which it may know of otherwise, too."""
        solo.control("heartbeat")
        heard = page("workers?json=1").get("data", ())
        return solo.hostname in {worker["hostname"] for worker in heard}

    def queues() -> set[str]:
        """By the worker's answer, for which Flower waits a second."""
        known = page(f"api/workers?refresh=1&workername={solo.hostname}")
        found = known.get(solo.hostname, {}).get("active_queues", ())
        return {queue["name"] for queue in found}

    try:
        wait_for(hears, 60, flower.log)
        task = publish(module_space.url, {"e": 1}).all()[0]
        wait_for(lambda: page("api/tasks").get(task, {}).get("state") == "SUCCESS", 30, flower.log)
        wait_equal(queues, {"e"})
    finally:
        flower.end()
