"""Queues that are asked for each message: nothing waits at a busy worker, the order is kept."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest

from tests import shares
from tests.apps.settings import CONSTANTS, PULL_INTERVAL
from tests.brokers import Space
from tests.integration.depths import ready, unsettled
from tests.integration.gate import Gate, closing_gate
from tests.publishing import publish
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker

QUANTA = {"one": 1, "three": 3}
PULL: dict[str, Any] = {
    "fair_queues": {name: {"quantum": q, "fetch": "pull"} for name, q in QUANTA.items()}
    | {"pushed": {"quantum": 2}}
}
LEVELS = ["low", "middle", "high"]
STRICT: dict[str, Any] = {
    "fair_policy": "strict",
    "fair_queues": {name: {"class": n, "fetch": "pull"} for n, name in enumerate(LEVELS)},
}


@pytest.mark.parametrize(("pool", "concurrency"), [("solo", 1), ("threads", 4), ("prefork", 2)])
def test_shares(space: Space, start_worker: StartWorker, pool: str, concurrency: int) -> None:
    totals = {"one": 200, "three": 600, "pushed": 400}
    ids = publish(space.url, totals)
    worker = start_worker(space, conf=PULL, pool=pool, concurrency=concurrency)

    starts = sorted(worker.records.started.wait_once(ids.all()))

    quanta = QUANTA | {"pushed": 2}
    comes = [number for number, start in enumerate(starts) if start.queue == "pushed"][19]
    part = shares.while_backlogged(starts, totals, warm_up=comes, reserve=20)
    assert shares.max_share_error(shares.amounts(part), quanta) < 0.03


def test_a_busy_worker_holds_nothing(space: Space, start_worker: StartWorker, gate: Gate) -> None:
    """Nor what comes behind the message that it takes for its last slot."""
    workers = [start_worker(space, conf=PULL, pool="threads", concurrency=2) for _ in range(2)]
    gate.hold(workers[0], "three", 4)  # every slot of both
    with closing_gate() as second:
        held = publish(space.url, {"three": 4}, "hold", [str(second.path)])
        waiting = publish(space.url, {"three": 5})
        gate.open()
        workers[0].records.started.wait_ids(held.all())

        wait_equal(lambda: ready(space, *QUANTA), 5)
        stats = [worker.inspect("stats")["fair"] for worker in workers]
        assert [fair[name]["buffered"] for fair in stats for name in QUANTA] == [0, 0, 0, 0]
        if space.kind == "rabbitmq":  # those that run were acknowledged at their start
            wait_equal(lambda: unsettled(space, *QUANTA), 0)
    workers[0].records.started.wait_once(waiting.all())


def test_idle_worker_takes_what_comes(space: Space, start_worker: StartWorker) -> None:
    worker = start_worker(space, conf=PULL)
    for _ in range(20):
        ids = publish(space.url, {"three": 1}).all()
        worker.records.started.wait_once(ids)


def test_strict_order(space: Space, start_worker: StartWorker, gate: Gate) -> None:
    """Highest first; one lower message; back to the top."""
    worker = start_worker(space, conf=STRICT)
    gate.hold(worker, "high")
    ids = publish(space.url, dict.fromkeys(LEVELS, 30))
    gate.open()

    starts = sorted(worker.records.started.wait_once(ids.all()))

    assert [name for name, _ in groupby(record.queue for record in starts)] == LEVELS[::-1]


def test_an_empty_higher_queue_is_asked_again_after_one_lower_message(
    space: Space, start_worker: StartWorker
) -> None:
    """However long it has been empty. The pauses between two questions double; here none is due."""
    rarely = {CONSTANTS: {PULL_INTERVAL: 60}}
    above = {f"high{n}": {"class": 1, "fetch": "pull"} for n in range(3)}
    queues = {"low": {"fetch": "pull"}} | above
    conf = STRICT | rarely | {"fair_queues": queues}
    worker = start_worker(space, conf=conf)
    url, records = worker.broker_url, worker.records.started
    records.wait_once(publish(url, {"low": 20}).all())

    for name in above:
        gate = Gate()
        gate.hold(worker, "low")
        low = publish(url, {"low": 5}).all()
        (high,) = publish(url, {name: 1}).all()
        gate.open()
        starts = sorted(records.wait_once([high, *low]))
        assert starts[0].id == high


def test_cancelled_and_deleted_queues(space: Space, start_worker: StartWorker) -> None:
    worker = start_worker(space, conf=PULL)
    worker.cancel_consumer("one")
    ids = publish(space.url, {"one": 3})
    worker.records.started.wait_once(publish(space.url, {"three": 3}).all())
    wait_equal(lambda: ready(space, "one"), 3)
    assert "ok" in worker.control("add_consumer", queue="one")
    worker.records.started.wait_once(ids.all())

    if space.kind == "rabbitmq":
        with worker.client.connection_for_write() as connection:
            connection.default_channel.queue_delete("three")
        wait_for(lambda: "three" in space.depths(), 30, worker.log)
        worker.records.started.wait_once(publish(space.url, {"three": 3}).all())


@pytest.mark.newest
def test_on_redis_celerys_setting_pulls_too(
    redis_space: Space, start_worker: StartWorker, gate: Gate
) -> None:
    """But not from a queue with a window of its own."""
    conf = {"worker_disable_prefetch": True, "fair_queues": {"own": {"prefetch": 3}, "named": {}}}
    queues = ["own", "named", "other"]
    worker = start_worker(redis_space, conf=conf, queues=queues, pool="threads", concurrency=2)
    with closing_gate() as first:
        first.hold(worker, "named", 2)
        ids = publish(redis_space.url, dict.fromkeys(queues, 5), "hold", [str(gate.path)]).all()
    started = worker.records.started
    wait_for(lambda: len(started.times(ids)) == 2, 30, worker.log)
    fair = worker.inspect("stats")["fair"]
    assert (fair["named"]["buffered"], fair["other"]["buffered"]) == (0, 0)
    waits = fair["own"]["buffered"]
    wait_equal(lambda: ready(redis_space, *queues), 15 - 2 - waits)
    gate.open()
