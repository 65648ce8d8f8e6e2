"""Workers come, go, die and sleep beyond their lease, under messages whose order matters."""

from __future__ import annotations

from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from amqp import AccessRefused, Channel, NotFound
from kombu import Connection

from celery_fair.core.groups.assignment import partition_of
from celery_fair.groups import GroupStore, store_at
from celery_fair.groups.document import decoded
from tests.brokers import RedisServer, Space
from tests.groups.churn import CASES, KEYS, Case, Churn, again, began, check_effects
from tests.groups.fleet import LEASE, QUEUE, STEADY, Fleet, check_told
from tests.integration.gate import closing_gate
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker, WorkerProcess

QUICK = CASES[2]

SOON = 2.0
"""Seconds in which partitions have changed hands: the workers' own, not those of a busy machine."""


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=() if case is QUICK else pytest.mark.wide) for case in CASES[:4]],
    ids=str,
)
def test_order_and_overlap(
    case: Case,
    request: pytest.FixtureRequest,
    redis_server: RedisServer,
    start_worker: StartWorker,
    tmp_path: Path,
) -> None:
    """Of all cases, and at random: `python -m tests.groups`."""
    space = request.getfixturevalue(f"{case.broker}_space")
    churn = Churn(case, space, redis_server.space().url, start_worker, tmp_path)
    churn.stop()
    churn.join()
    churn.kill()
    churn.freeze()
    if case.fetch == "push":
        check_fence(space, case.queue_type)
    churn.check()
    print(churn.took, churn.queued)
    assert churn.longest("stopped") < SOON
    assert churn.longest("joined") < SOON
    assert churn.longest("killed") < LEASE["lease"] + SOON
    assert churn.longest("stood still") < LEASE["lease"] + SOON


def test_what_begins_between_two_readings_has_not_begun_twice() -> None:
    class Busy(Fleet):
        """One more task begins whenever somebody looks, and the first one again."""

        @property
        def events(self) -> list[dict[str, Any]]:
            ids = ["0", *map(str, range(next(looks)))]
            return [{"kind": "began", "id": id_} for id_ in ids]

    looks = count(3)
    busy = Busy.__new__(Busy)
    assert again(busy) == {"0": 1}


def test_pushed_partition_has_one_consumer(
    rabbitmq_space: Space, start_worker: StartWorker, tmp_path: Path
) -> None:
    case = Case("rabbitmq", "push", "keyed")
    fleet = Fleet(rabbitmq_space, start_worker, tmp_path, f"sqlite:///{tmp_path}/g.db", 1)
    fleet.conf |= case.conf
    fleet.wait_counts([1], fleet.worker())
    check_fence(rabbitmq_space, case.queue_type)


def check_fence(space: Space, queue_type: str) -> None:
    """No second consumer is let in, once the partition's owner, which said so before, is."""
    with Connection(space.url) as connection, connection.channel() as channel:
        if queue_type == "classic":
            wait_for(lambda: consumers(channel, f"{QUEUE}.0"), 30, "a consumer")
            with pytest.raises(AccessRefused, match="exclusive use"):
                channel.basic_consume(f"{QUEUE}.0", callback=print)
        else:
            single = {"x-queue-type": "quorum", "x-single-active-consumer": True}
            channel.queue_declare(f"{QUEUE}.0", durable=True, auto_delete=False, arguments=single)


def consumers(channel: Channel, queue: str) -> int:
    """How many the queue has: none, too, where its owner has said so and not yet declared it."""
    try:
        return channel.queue_declare(queue, passive=True).consumer_count
    except NotFound:
        return 0


@pytest.mark.parametrize(
    "case",
    [Case("redis", "push", "keyed"), Case("rabbitmq", "push", "keyed", "quorum")],
    ids=["redis", "quorum"],
)
def test_taken_ahead_comes_back(
    case: Case, request: pytest.FixtureRequest, start_worker: StartWorker, tmp_path: Path
) -> None:
    """Of a worker that was killed, by its successor; in which order is not promised here."""
    space = request.getfixturevalue(f"{case.broker}_space")
    fleet = Fleet(space, start_worker, tmp_path, f"sqlite:///{tmp_path}/g.db", 1)
    fleet.conf |= case.conf
    first = fleet.worker()
    fleet.wait_counts([1], first)
    with closing_gate() as gate:
        fleet.send("a", 0, "keyed", gate=str(gate.path))
        wait_for(lambda: began(fleet), 20, first.log)
        for number in range(1, 4):
            fleet.send("a", number, "keyed")
        wait_equal(lambda: sum(space.ready().values()), 0)
        first.kill()
    second = fleet.worker()
    fleet.wait_counts([1], second)
    fleet.records.finished.wait(4)
    again = [event["number"] for event in began(fleet) if event["worker"] == second.hostname]
    assert sorted(again) == [*range(4)]
    check_effects(fleet)
    check_told(fleet, {first.hostname})


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
    (moved,) = (
        event
        for event in fleet.events
        if event["kind"] == "assigned" and event["worker"] == second.hostname
    )
    ((partition, token),) = moved["partitions"].items()
    ended = [e for e in fleet.events if e["kind"] == "ended" and e["partition"] == partition]
    assert ended[0]["token"] < token
    assert moved["at"] > ended[0]["at"]


@pytest.mark.either_broker("redis")
def test_who_stops_takes_no_more(space: Space, start_worker: StartWorker, tmp_path: Path) -> None:
    """And keeps what it has until its last task has ended, whoever comes and goes."""
    url = f"sqlite:///{tmp_path}/g.db"
    fleet = Fleet(space, start_worker, tmp_path, url, lease=STEADY)
    with closing(store_at(url)) as store, closing_gate() as gate:
        a, b = fleet.worker(), fleet.worker()
        fleet.wait_counts([3, 3], a, b)
        before = fleet.owned(a)[a.hostname]
        key = next(key for key in KEYS if f"{QUEUE}.{partition_of(key, 6)}" in before)
        fleet.send(key, 0, "keyed", gate=str(gate.path))
        wait_for(lambda: began(fleet), 20, "a task")

        a.sigterm()
        wait_for(lambda: planned(store, b), 20, "all to be planned for b")
        assert b.stop() == 0
        c = fleet.worker()
        fleet.wait_counts([3], c)
        assert fleet.owned(c)[c.hostname].isdisjoint(before)
    assert a.wait() == 0
    fleet.wait_counts([6], c)
    check_told(fleet)


def planned(store: GroupStore, worker: WorkerProcess) -> bool:
    """Whether a worker is to own all partitions."""
    plan = decoded(store.read(QUEUE).text).plan
    return {member.rpartition(":")[0] for member in plan.values()} == {worker.hostname}


def test_long_task_keeps_its_partition(
    rabbitmq_space: Space, start_worker: StartWorker, tmp_path: Path
) -> None:
    """Longer than the lease, and in the worker's only thread: the lease is renewed beside it."""
    store = f"sqlite:///{tmp_path}/g.db"
    lease = 2 * LEASE["lease"]  # not to be lost by standing still for a moment
    fleet = Fleet(rabbitmq_space, start_worker, tmp_path, store, 1, pool="solo", lease=lease)
    first = fleet.worker()
    fleet.wait_counts([1], first)
    spare = fleet.worker()
    fleet.publish(["a"], 1, seconds=1.5 * lease)
    fleet.publish(["b"], 1)
    fleet.records.finished.wait(2)
    assert len({event["token"] for event in began(fleet)}) == 1
    assert "revoked" not in {event["kind"] for event in fleet.events}
    assert fleet.owned(spare) == {spare.hostname: set()}
