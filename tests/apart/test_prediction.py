"""What a replay predicts of a worker on RabbitMQ from its log, and what its messages did wait.

The replay knows when messages were published and for how long each ran, from the log alone; a slow
machine slows both sides. What it does not know is the time from one message's end to the next one's
start; the more others use the machine, the longer that is, and the more falls short what the replay
says. The tolerance is for that.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from celery_fair.headers import PUBLISHED
from tests.apart.commands import AT_ONCE, ask
from tests.brokers import Space
from tests.waiting import wait_equal
from tests.workers import StartWorker, WorkerProcess

QUANTA = {"interactive": 4, "reports": 2, "bulk": 1}
SLOTS = 2
EACH, ARRIVE_WITHIN = 200, 10.0
SHORTEST, LONGEST = 0.03, 0.17
"""Seconds of work: 20 a queue on average, which take the two slots half a minute."""
TOLERANCE = 0.15


@dataclass(frozen=True)
class Planned:
    """A message that is to be published."""

    after: float
    queue: str
    work: float


def trace() -> list[Planned]:
    """Three queues, each with more work in ten seconds than its share allows."""
    draw = random.Random(11)
    planned = [
        Planned(draw.uniform(0, ARRIVE_WITHIN), queue, draw.uniform(SHORTEST, LONGEST))
        for queue in QUANTA
        for _ in range(EACH)
    ]
    return sorted(planned, key=lambda message: message.after)


def publish(worker: WorkerProcess, planned: list[Planned]) -> None:
    """Publish each message when its time has come."""
    begin = time.monotonic()
    with worker.client.producer_or_acquire() as producer:
        for number, message in enumerate(planned):
            Event().wait(max(0.0, begin + message.after - time.monotonic()))
            worker.client.send_task(
                "nap",
                (number, message.work),
                queue=message.queue,
                headers={PUBLISHED: time.time()},
                producer=producer,
            )


@dataclass(frozen=True)
class Waits:
    """What 95 of a hundred messages waited at most, in seconds, by queue.

    Attributes:
        live: in the run.
        replayed: in a replay of its log.
        with_quanta: in a replay under `QUANTA`.
    """

    live: dict[str, float]
    replayed: dict[str, float]
    with_quanta: dict[str, float]


def run(space: Space, start_worker: StartWorker, folder: Path, quanta: dict[str, int]) -> Waits:
    """Let a worker do the whole trace, and ask its log."""
    log, warehouse = folder / "log", folder / "warehouse"
    conf: dict[str, Any] = {
        "fair_event_log": str(log),
        "fair_queues": {queue: {"quantum": quantum} for queue, quantum in quanta.items()},
    }
    options: dict[str, Any] = {"queues": list(quanta), "conf": conf, "pool": "threads"}
    worker = start_worker(space, concurrency=SLOTS, **options)
    done = worker.records.finished
    before = len(done.read())
    publish(worker, trace())
    wait_equal(lambda: len(done.read()) - before, len(QUANTA) * EACH, timeout=300)
    assert worker.stop() == 0
    changes = " ".join(f"{queue}.quantum={quantum}" for queue, quantum in QUANTA.items())
    commands = [
        ("ingest", "--json", log, warehouse),
        ("waits", "--json", warehouse),
        ("whatif", "--json", warehouse),
        ("whatif", "--json", warehouse, "--base", changes),
    ]
    said = ask(AT_ONCE, *(word for command in commands for word in ("+", *command)))
    return Waits(*({row["queue"]: row["p95"] for row in rows} for rows in said[1:]))


def check(prediction: dict[str, float], truth: dict[str, float]) -> None:
    errors = {queue: prediction[queue] / truth[queue] - 1 for queue in truth}
    print({queue: f"{truth[queue]:.2f} s {error:+.1%}" for queue, error in errors.items()})
    assert errors.keys() == QUANTA.keys()
    assert max(map(abs, errors.values())) <= TOLERANCE, (errors, truth)


@pytest.fixture
def space(rabbitmq_space: Space) -> Space:
    return rabbitmq_space


def test_waits_are_as_predicted(space: Space, start_worker: StartWorker, tmp_path: Path) -> None:
    """By the run's own log; and by that of a run with equal quanta, which waited otherwise."""
    equal = run(space, start_worker, tmp_path / "equal", dict.fromkeys(QUANTA, 1))
    shared = run(space, start_worker, tmp_path / "shared", QUANTA)
    check(equal.replayed, equal.live)
    check(shared.replayed, shared.live)
    assert equal.live["interactive"] > (1 + 2 * TOLERANCE) * shared.live["interactive"]
    check(equal.with_quanta, shared.live)
