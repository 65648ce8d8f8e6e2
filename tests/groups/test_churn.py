"""Workers come, go, die and sleep beyond their lease, under messages whose order matters."""

from __future__ import annotations

import os
import signal
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from amqp import AccessRefused
from kombu import Connection

from celery_fair.dead_letter import dead_letter_queue
from tests.brokers import RedisServer, Space, ZooKeeper
from tests.groups.fleet import LEASE, QUEUE, Fleet
from tests.waiting import wait_for
from tests.workers import StartWorker

PARTITIONS = 6
SLOTS = 4
KEYS = [f"customer{number}" for number in range(12)]
NAP = 0.03
# What a worker holds that stands still comes back when the broker has missed its heartbeats.
PATIENT = {"broker_heartbeat": 2}


def test_order_and_overlap(
    rabbitmq_space: Space, redis_space: Space, start_worker: StartWorker, tmp_path: Path
) -> None:
    fleet = Fleet(rabbitmq_space, start_worker, tmp_path, redis_space.url, PARTITIONS)
    a, b, c = (fleet.worker(**PATIENT) for _ in range(3))
    fleet.wait_counts([2, 2, 2], a, b, c)

    each = 60
    published = fleet.publish(KEYS, each, "keyed_once", seconds=NAP)
    wait_for(lambda: len(began(fleet)) > 60, 30, "the first sixty")
    assert a.stop() == 0
    d = fleet.worker(**PATIENT)
    fleet.wait_counts([2, 2, 2], b, c, d)
    b.kill()
    fleet.wait_counts([3, 3], c, d)
    os.kill(c.pid, signal.SIGSTOP)
    try:
        fleet.wait_counts([6], d)
    finally:
        os.kill(c.pid, signal.SIGCONT)
    fleet.wait_counts([3, 3], c, d)

    dead: Counter[int] = Counter()
    wait_for(
        lambda: (
            len(began(fleet)) + sum(dead_letters(rabbitmq_space, dead).values()) + SLOTS
            >= published
            and not left(rabbitmq_space)
        ),
        60,
        lambda: (
            f"{len(began(fleet))} began, {sum(dead.values())} dead, of {published};"
            f" left: {left(rabbitmq_space)}\n{c.log()[-3000:]}\n{d.log()[-3000:]}"
        ),
    )
    check_order(fleet)
    check_effects(fleet)


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_order_of_what_was_taken_ahead(
    rabbitmq_space: Space, start_worker: StartWorker, tmp_path: Path, queue_type: str
) -> None:
    """It returns to its place, if its task is repeatable; and no second consumer is let in."""
    fleet = Fleet(rabbitmq_space, start_worker, tmp_path, f"sqlite:///{tmp_path}/g.db", 4)
    fleet.conf |= {
        "fair_queues": {QUEUE: {"fetch": "push"}},
        "task_create_missing_queue_type": queue_type,
        "broker_native_delayed_delivery_queue_type": "classic",
    }
    a, b = fleet.worker(), fleet.worker()
    fleet.wait_counts([2, 2], a, b)
    published = fleet.publish(KEYS, 30, seconds=NAP)
    wait_for(lambda: len(began(fleet)) > 30, 30, "the first thirty")
    assert a.stop() == 0
    c = fleet.worker()
    fleet.wait_counts([2, 2], b, c)
    wait_for(lambda: len(began(fleet)) >= published, 60, lambda: f"{left(rabbitmq_space)}")
    check_order(fleet)
    check_effects(fleet)
    with Connection(rabbitmq_space.url) as connection, connection.channel() as channel:
        if queue_type == "classic":
            with pytest.raises(AccessRefused, match="exclusive use"):
                channel.basic_consume(f"{QUEUE}.0", callback=print)
        else:
            single = {"x-queue-type": "quorum", "x-single-active-consumer": True}
            channel.queue_declare(f"{QUEUE}.0", durable=True, auto_delete=False, arguments=single)


def began(fleet: Fleet) -> list[dict[str, Any]]:
    return [event for event in fleet.events if event["kind"] == "began"]


def left(space: Space) -> dict[str, int]:
    depths = space.depths()
    return {name: sum(d) for name, d in depths.items() if name.startswith(QUEUE) and sum(d)}


def dead_letters(space: Space, seen: Counter[int]) -> Counter[int]:
    """Take them out, and count them by number."""
    with Connection(space.url) as connection, connection.channel() as channel:
        queue = dead_letter_queue("dead-letters")(channel)
        queue.declare()
        while (message := queue.get()) is not None:
            message.ack()
            seen[message.headers["id"]] += 1
    return seen


def check_order(fleet: Fleet) -> None:
    """No message began twice, and none after one that was published later."""
    numbers = defaultdict(list)
    for event in began(fleet):
        numbers[event["key"]].append(event["number"])
    assert numbers.keys() == set(KEYS)
    for key, seen in numbers.items():
        assert seen == sorted(set(seen)), key


def check_effects(fleet: Fleet) -> None:
    """Ends that a database which knows the newest token would take: one work at a time each."""
    newest: dict[str, int] = {}
    at_work: dict[str, str] = {}
    for event in fleet.events:
        if event["kind"] not in {"began", "ended"}:
            continue
        partition, token = event["partition"], event["token"]
        if event["kind"] == "began":
            assert token >= newest.get(partition, 0), event
            if token == newest.get(partition):
                assert at_work[partition] == "", f"{at_work[partition]} and {event}"
            newest[partition], at_work[partition] = token, event["id"]
        elif token == newest[partition]:
            assert at_work[partition] == event["id"], event
            at_work[partition] = ""


@pytest.mark.parametrize("kind", ["redis", "zookeeper"])
def test_store_is_away(
    rabbitmq_space: Space,
    request: pytest.FixtureRequest,
    start_worker: StartWorker,
    tmp_path: Path,
    kind: str,
) -> None:
    """Work goes on until the lease is nearly over, stops, and goes on when the store is back."""
    server = request.getfixturevalue(f"own_{kind}")
    assert isinstance(server, RedisServer | ZooKeeper)
    fleet = Fleet(rabbitmq_space, start_worker, tmp_path, server.url())
    worker = fleet.worker()
    fleet.wait_counts([6], worker)
    server.kill()
    fleet.publish(KEYS, 1)
    fleet.records.finished.wait(len(KEYS))
    fleet.wait_counts([0], worker)
    kinds = [event["kind"] for event in fleet.events]
    assert kinds.index("failed") < kinds.index("revoked")
    (failure,) = (event for event in fleet.events if event["kind"] == "failed")
    assert failure["will_recover"] is True

    fleet.publish(KEYS, 1)
    server.start()
    server.wait_ready()
    fleet.wait_counts([6], worker)
    fleet.records.finished.wait(2 * len(KEYS))
    assert worker.stop() == 0


def test_running_work_is_waited_for(
    rabbitmq_space: Space, start_worker: StartWorker, tmp_path: Path
) -> None:
    """A worker that joins has a partition only when what runs of it has ended."""
    fleet = Fleet(rabbitmq_space, start_worker, tmp_path, f"sqlite:///{tmp_path}/g.db", 2)
    first = fleet.worker()
    fleet.wait_counts([2], first)
    long = 3.0
    fleet.publish(KEYS[:8], 1, seconds=long)
    wait_for(lambda: len(began(fleet)) == 2, 20, "both partitions at work")
    second = fleet.worker()
    fleet.wait_counts([1, 1], first, second)
    (moved,) = (e for e in fleet.events if e.get("worker") == second.hostname)
    ((partition, token),) = moved["partitions"].items()
    assert token == 2
    ended = [e for e in fleet.events if e["kind"] == "ended" and e["partition"] == partition]
    assert [e["token"] for e in ended][:1] == [1]
    assert moved["at"] > ended[0]["at"]


def test_long_task_keeps_its_partition(
    rabbitmq_space: Space, start_worker: StartWorker, tmp_path: Path
) -> None:
    """Longer than the lease, and in the worker's only thread: the lease is renewed beside it."""
    store = f"sqlite:///{tmp_path}/g.db"
    fleet = Fleet(rabbitmq_space, start_worker, tmp_path, store, 1, pool="solo")
    first = fleet.worker()
    fleet.wait_counts([1], first)
    spare = fleet.worker()
    fleet.publish(["a"], 1, seconds=1.5 * LEASE["lease"])
    fleet.publish(["b"], 1)
    fleet.records.finished.wait(2)
    assert [event["token"] for event in began(fleet)] == [1, 1]
    assert fleet.owned(spare) == {spare.hostname: set()}
