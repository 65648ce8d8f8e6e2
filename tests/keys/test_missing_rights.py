"""Users of RabbitMQ who may not have lanes: shares are lost, and nothing else."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.brokers import Space
from tests.integration.depths import left
from tests.keys.tenants import KEYED, QUEUE, Tenants
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker

LIMIT = 3
KEYS, EACH, SECONDS = 10, 4, 0.5


def without_lanes(space: Space) -> str:
    """Return the URL of a user who may do all but what lanes need."""
    name = f"plain{os.getpid()}.{space.place}"
    plain = rf"^(?!{QUEUE}\.fair).*"
    url: str = space.server.add_user(name, space.place, plain, plain, plain)
    return url


@pytest.mark.parametrize("task", ["plain", "before"])
def test_it_is_said_and_nothing_is_dropped_or_dead(
    rabbitmq_space: Space, start_worker: StartWorker, task: str
) -> None:
    """Though the queue drops what was returned to it more than three times."""
    space = rabbitmq_space
    space.server.control(
        "eval",
        f'rabbit_policy:set(<<"{space.place}">>, <<"limit">>, <<"{QUEUE}">>,'
        f' [{{<<"delivery-limit">>, {LIMIT}}}], 0, <<"queues">>, <<"tests">>).',
    )
    arguments: dict[str, Any] = {"x-queue-type": "quorum"}
    tenants = Tenants(space.url)
    ids = []
    for _ in range(EACH):
        counts = {f"t{number}": 1 for number in range(KEYS)}
        ids += tenants.publish(counts, task, ["", SECONDS], queue_arguments=arguments)
    options: dict[str, Any] = {"app": "tests.apps.once", "queues": [QUEUE], "pool": "solo"}
    worker = start_worker(
        without_lanes(space), conf=KEYED, queue_arguments=arguments, quiet=False, **options
    )
    wait_for(lambda: len(worker.records.started.read()) >= len(ids), 120, worker.log)
    worker.records.started.wait_once(ids)
    assert worker.log().count(f"configure, write and read {QUEUE}.fair.*") == 1
    assert worker.stop() == 0
    wait_equal(lambda: left(space, QUEUE), 0)
