"""Strict priority: who is served first, by class; shares inside a class; ageing."""

from __future__ import annotations

import random
import time
from itertools import groupby
from typing import Any

import pytest

from tests.apps.settings import CONSTANTS, PATIENCE
from tests.brokers import Space
from tests.integration.depths import ready
from tests.integration.gate import Gate
from tests.live.running import stood_still
from tests.publishing import publish
from tests.shares import while_backlogged
from tests.waiting import wait_for
from tests.workers import StartWorker, WorkerProcess

LEVELS = ["slow", "medium", "fast"]
QUANTA = {"one": 1, "three": 3}
CLASSES: dict[str, Any] = (
    {name: {"class": rank} for rank, name in enumerate(LEVELS)}
    | {name: {"class": 5, "quantum": quantum} for name, quantum in QUANTA.items()}
    | {"gate": {"class": 9}}
)
STRICT = {"fair_policy": "strict", "fair_queues": CLASSES}


@pytest.fixture(scope="module")
def worker(module_space: Space, start_module_worker: StartWorker) -> WorkerProcess:
    patient = STRICT | {CONSTANTS: {PATIENCE: (0.25, 2.0)}}  # whatever else RabbitMQ has to do
    return start_module_worker(module_space, app="tests.apps.witness", conf=patient)


@pytest.mark.either_broker
def test_no_task_starts_while_a_higher_one_is_in_the_worker(worker: WorkerProcess) -> None:
    chance = random.Random(3)
    published = []
    for _ in range(40):
        counts = {name: chance.randrange(40) for name in chance.sample(LEVELS, 2)}
        published += publish(worker.broker_url, counts, "witness", persistent=False).all()

    starts = worker.records.started.wait_once(published)

    assert {record.queue for record in starts} == set(LEVELS)
    assert [record for record in starts if record.seq] == []


def test_backlogged_levels_are_served_in_order(
    worker: WorkerProcess, module_space: Space, gate: Gate
) -> None:
    gate.hold(worker, "gate")
    ids = publish(worker.broker_url, dict.fromkeys(LEVELS, 200))
    wait_delivered(module_space, dict.fromkeys(LEVELS, 200))
    gate.open()

    starts = sorted(worker.records.started.wait_once(ids.all()))

    assert [name for name, _ in groupby(record.queue for record in starts)] == LEVELS[::-1]


def wait_delivered(space: Space, counts: dict[str, int]) -> None:
    """Until some messages of each of these queues have gone to the worker, which is busy."""
    if space.kind == "rabbitmq":  # it pushes; from Redis a worker takes for a free slot
        wait_for(lambda: all(ready(space, name) < counts[name] for name in counts), 30, "windows")


def test_shares_inside_a_class(worker: WorkerProcess, module_space: Space, gate: Gate) -> None:
    gate.hold(worker, "gate")
    counts = {"one": 300, "three": 900, "slow": 50}
    ids = publish(worker.broker_url, counts, "spin", [200], persistent=False)
    wait_delivered(module_space, counts)
    gate.open()

    starts = sorted(worker.records.started.wait_once(ids.all()))

    high = while_backlogged(
        [record for record in starts if record.queue in QUANTA], counts, warm_up=40, reserve=10
    )
    got = [sum(record.queue == name for record in high) for name in QUANTA]
    assert 2.8 <= got[1] / got[0] <= 3.2, got
    assert [record.queue for record in starts[-50:]] == ["slow"] * 50


@pytest.mark.either_broker
def test_ageing_bounds_the_wait_of_the_lowest(space: Space, start_worker: StartWorker) -> None:
    """Twice `fair_max_wait` for two classes, then a turn."""
    max_wait = 0.6
    publish(space.url, {"fast": 6000, "medium": 1500}, "nap", [0.002], persistent=False)
    worker = start_worker(space, conf=STRICT | {"fair_max_wait": max_wait})
    records = worker.records.started
    records.wait(20)

    waits = []
    for _ in range(2):
        latest = records.read()[-1]
        (task,) = publish(space.url, {"slow": 1}).all()
        published = time.monotonic_ns()
        (start,) = records.wait_once([task])
        meanwhile = (record for record in records.read() if latest <= record <= start)
        waits.append(
            (
                (start.monotonic_ns - latest.monotonic_ns) / 1e9,
                (start.monotonic_ns - published) / 1e9 - stood_still(meanwhile, 0.1),
            )
        )

    assert ready(space, "fast") > 0, "the highest level was not backlogged all the time"
    print(waits)
    for most, least in waits:
        assert 2 * max_wait - 0.1 <= most, waits
        assert least <= 2 * max_wait + 1, waits
