"""The harness proves itself on vanilla Celery.

What these tests say of Celery is well known; what they show is that workers,
brokers, publisher and records tell the truth, so that the same parts can be
believed about ours.
"""

from __future__ import annotations

import pytest

from tests import shares
from tests.brokers import Space
from tests.publishing import publish
from tests.workers import StartWorker

pytestmark = [pytest.mark.newest, pytest.mark.wide]

QUEUES = [f"p{number}" for number in range(10)]
TOTALS = dict.fromkeys(QUEUES, 100)


@pytest.mark.newest  # before 5.7, acknowledgements could wait for seconds under threads
@pytest.mark.parametrize(("pool", "concurrency"), [("solo", 1), ("threads", 2), ("prefork", 2)])
def test_every_message_runs_once_and_queues_share_alike(
    space: Space, start_worker: StartWorker, pool: str, concurrency: int
) -> None:
    ids = publish(space.url, TOTALS)
    assert space.ready() == TOTALS
    worker = start_worker(space, fair=False, queues=QUEUES, pool=pool, concurrency=concurrency)

    starts = worker.records.started.wait(sum(TOTALS.values()), 100)

    assert {record.id for record in starts} == set(ids.all())
    assert worker.records.started.repeated() == []
    assert not any(record.redelivered for record in starts)
    got = shares.amounts(shares.while_backlogged(starts, TOTALS))
    assert shares.jain_index(got, dict.fromkeys(QUEUES, 1)) > 0.85


def test_sigterm_ends_a_worker(space: Space, start_worker: StartWorker) -> None:
    worker = start_worker(space, fair=False, queues=QUEUES, pool="prefork", concurrency=2)
    assert worker.control("ping") == {"ok": "pong"}
    assert {queue["name"] for queue in worker.inspect("active_queues")} == set(QUEUES)
    assert worker.cpu_seconds() > 0
    children = worker.children()
    assert children

    assert worker.stop() == 0

    assert not worker.running
    assert not any(child.is_running() for child in children)


def test_worker_consumes_again_after_the_broker_was_killed(
    own_space: Space, start_worker: StartWorker
) -> None:
    worker = start_worker(own_space, fair=False, queues=QUEUES)
    before = publish(own_space.url, dict.fromkeys(QUEUES, 5))
    worker.records.started.wait_ids(before.all())

    own_space.server.kill()
    own_space.server.restart()
    after = publish(own_space.url, dict.fromkeys(QUEUES, 5), first=5)

    worker.records.started.wait_ids(after.all())
    assert worker.running
