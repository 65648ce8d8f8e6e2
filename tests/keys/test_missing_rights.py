"""Users of RabbitMQ who may not have lanes: shares are lost, and nothing else."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from kombu import Connection, Queue

from celery_fair.brokers.lanes import Lanes, lane_name
from tests.brokers import Space
from tests.integration.depths import left
from tests.keys.tenants import KEYED, QUEUE, Tenants
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker

LIMIT = 3
KEYS, ROUNDS, EACH, SECONDS = 10, 4, 3, 0.15  # deeper than what is sorted


def without_lanes(space: Space, uses: bool = False) -> str:
    """Return the URL of a user who may do all but what lanes need, or but declare them."""
    plain = rf"^(?!{QUEUE}\.fair).*"
    used = ".*" if uses else plain
    url: str = space.server.add_user(f"plain-{uuid4()}", space.place, plain, used, used)
    return url


@pytest.mark.parametrize("task", ["plain", "before"])
def test_it_is_said_and_nothing_is_dropped_or_dead(
    rabbitmq_space: Space, start_worker: StartWorker, task: str
) -> None:
    """Though the queue drops what was returned to it more than three times; and all in order."""
    space = rabbitmq_space
    space.server.control(
        "eval",
        f'rabbit_policy:set(<<"{space.place}">>, <<"limit">>, <<"{QUEUE}">>,'
        f' [{{<<"delivery-limit">>, {LIMIT}}}], 0, <<"queues">>, <<"tests">>).',
    )
    arguments: dict[str, Any] = {"x-queue-type": "quorum"}
    tenants = Tenants(space.url)
    ids = []
    for _ in range(ROUNDS):
        counts = {f"t{number}": EACH for number in range(KEYS)}
        ids += tenants.publish(counts, task, ["", SECONDS], queue_arguments=arguments)
    options: dict[str, Any] = {"app": "tests.apps.once", "queues": [QUEUE], "pool": "solo"}
    worker = start_worker(
        without_lanes(space), conf=KEYED, queue_arguments=arguments, quiet=False, **options
    )
    wait_for(lambda: len(worker.records.started.read()) >= len(ids), 120, worker.log)
    starts = sorted(worker.records.started.wait_once(ids))
    assert [record.id for record in starts] == ids
    assert worker.log().count(f"configure, write and read {QUEUE}.fair.*") == 1
    assert worker.stop() == 0
    wait_equal(lambda: left(space, QUEUE), 0)


def test_a_lane_that_is_gone_gives_back_nothing_of_what_is_sorted(
    rabbitmq_space: Space, start_worker: StartWorker
) -> None:
    """It would be delivered again: of non-repeatable tasks, a dead letter that never started."""
    space = rabbitmq_space
    with closing(Lanes(partial(Connection, space.url), Queue(QUEUE), 20)) as lanes:
        assert [lanes.add() for _ in range(3)] == [0, 1, 2]
        lanes.channel.queue_delete(lane_name(QUEUE, 1))
    ids = Tenants(space.url).publish(dict.fromkeys("abcd", 100), "before")
    worker = start_worker(
        without_lanes(space, uses=True), app="tests.apps.once", queues=[QUEUE], conf=KEYED
    )
    worker.records.started.wait_once(ids)
    wait_equal(lambda: left(space, QUEUE), 0)
    assert "dead-letters" not in space.ready()
