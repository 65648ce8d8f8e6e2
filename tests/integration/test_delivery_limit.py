"""A quorum queue drops what was returned to it too often, RabbitMQ 4 by default after 20 times."""

from __future__ import annotations

from typing import Any

import pytest

from tests.brokers import Space
from tests.integration.depths import left, ready
from tests.publishing import publish
from tests.waiting import wait_equal
from tests.workers import StartWorker

QUORUM = {"x-queue-type": "quorum"}
LIMIT = 2
HELD = 5


@pytest.mark.parametrize("by", ["argument", "policy"])
def test_what_never_starts_is_never_dropped(
    rabbitmq_space: Space, start_worker: StartWorker, by: str
) -> None:
    """It is held by one worker after the other, and given back as each of them stops."""
    space = rabbitmq_space
    arguments: dict[str, Any] = QUORUM | ({"x-delivery-limit": LIMIT} if by == "argument" else {})
    if by == "policy":
        space.server.control(
            "eval",
            f'rabbit_policy:set(<<"{space.place}">>, <<"limit">>, <<"held">>,'
            f' [{{<<"delivery-limit">>, {LIMIT}}}], 0, <<"queues">>, <<"tests">>).',
        )
    leashed = {"fair_queues": {"held": {"rate": "1/h", "prefetch": HELD}}}
    ids = publish(space.url, {"held": 2 * HELD}, queue_arguments=arguments).all()
    for stops in range(1, LIMIT + 3):
        worker = start_worker(space, queues=["held"], conf=leashed, queue_arguments=arguments)
        worker.records.started.wait(stops)
        wait_equal(lambda: ready(space, "held"), 2 * HELD - stops - HELD)
        assert worker.stop() == 0
        assert left(space, "held") == 2 * HELD - stops

    last = start_worker(space, queues=["held"], queue_arguments=arguments)
    last.records.started.wait_once(ids)
