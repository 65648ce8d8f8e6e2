"""Workers come, go, die and sleep beyond their lease, under messages whose order matters."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from amqp import AccessRefused
from kombu import Connection

from tests.brokers import RedisServer, Space
from tests.groups.churn import CASES, KEYS, Case, Churn, began, check_effects, check_order
from tests.groups.fleet import LEASE, QUEUE, Fleet
from tests.waiting import wait_for
from tests.workers import StartWorker

SLACK = 10
"""Seconds that a busy machine may take longer."""


@pytest.mark.parametrize(
    "case", [*CASES[:3], pytest.param(CASES[3], marks=pytest.mark.wide)], ids=str
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
    assert "refused" in {event["kind"] for event in churn.fleet.events}
    print(churn.took)
    assert max(churn.took["joined"]) < 2 + SLACK
    assert max(churn.took["killed"]) < LEASE["lease"] + 2 + SLACK


def check_fence(space: Space, queue_type: str) -> None:
    """No second consumer is let in, once the partition's owner, which said so before, is."""
    with Connection(space.url) as connection, connection.channel() as channel:
        if queue_type == "classic":
            declare = partial(channel.queue_declare, f"{QUEUE}.0", passive=True)
            wait_for(lambda: declare().consumer_count, 30, "a consumer")
            with pytest.raises(AccessRefused, match="exclusive use"):
                channel.basic_consume(f"{QUEUE}.0", callback=print)
        else:
            single = {"x-queue-type": "quorum", "x-single-active-consumer": True}
            channel.queue_declare(f"{QUEUE}.0", durable=True, auto_delete=False, arguments=single)


def test_quorum_queue_puts_behind(rabbitmq_space: Space) -> None:
    """Why pushed messages lose their order there: what is given back comes last."""
    arguments = {"x-queue-type": "quorum", "x-single-active-consumer": True}
    with Connection(rabbitmq_space.url) as connection, connection.channel() as channel:
        channel.queue_declare("q", durable=True, auto_delete=False, arguments=arguments)
        for number in range(3):
            channel.basic_publish(channel.prepare_message(b"%d" % number), "", "q")
        taken: list[Any] = []
        channel.basic_qos(0, 1, False)
        channel.basic_consume("q", consumer_tag="first", callback=taken.append)
        wait_for(lambda: taken or connection.drain_events(timeout=10), 10, "a message")
        channel.basic_cancel("first")
        channel.basic_reject(taken[0].delivery_tag, requeue=True)
        channel.basic_consume("q", consumer_tag="second", no_ack=True, callback=taken.append)
        while len(taken) < 4:
            connection.drain_events(timeout=10)
    assert [int(message.body) for message in taken] == [0, 1, 2, 0]


def test_redis_gives_back_late(
    redis_server: RedisServer, start_worker: StartWorker, tmp_path: Path
) -> None:
    """What a worker had taken ahead that was killed comes after what was published later.

    It does if the visibility timeout is longer than what is left of the lease, as it is by default.
    """
    space, store = redis_server.space(), redis_server.space()
    case = Case("redis", "push", "keyed", visibility=LEASE["lease"] + 6)
    churn = Churn(case, space, store.url, start_worker, tmp_path, workers=2)
    churn.kill()
    churn.drain()
    check_effects(churn.fleet)
    with pytest.raises(AssertionError, match="after"):
        check_order(churn.fleet, once=False)


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
    assert ended[0]["token"] == token - 1
    assert 0 < moved["at"] - ended[0]["at"] < 2 + SLACK


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
