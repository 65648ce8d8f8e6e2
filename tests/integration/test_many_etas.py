"""More messages with an ETA than a prefetch count can say: 65,535 is the most, twice over."""

from __future__ import annotations

import pytest

from tests.brokers import Space
from tests.publishing import publish
from tests.workers import StartWorker

pytestmark = [pytest.mark.wide, pytest.mark.timeout(400)]


def test_they_hold_up_nobody(rabbitmq_space: Space, start_worker: StartWorker) -> None:
    space = rabbitmq_space
    publish(space.url, {"a": 135_000}, countdown=3600, persistent=False)
    behind = publish(space.url, {"a": 1}).all()
    worker = start_worker(space, pool="threads", queues=["a"])
    worker.records.started.wait_ids(behind, 300)
    worker.kill()  # a warm stop would give all of them back
