"""What waits under a name that the settings have no more, and who starts it."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery

from celery_fair import install
from tests.brokers import Space
from tests.integration.depths import left
from tests.keys.tenants import QUEUE, publisher, send
from tests.workers import StartWorker

pytestmark = pytest.mark.newest


@pytest.mark.either_broker
def test_a_level_that_is_none_any_more(space: Space, start_worker: StartWorker) -> None:
    levels: dict[str, Any] = {"slow": [0, 4], "fast": [5, 9]}
    with Celery("shop", broker=space.url, set_as_current=False) as app:
        app.conf.fair_logical_queues = {"mail": {"levels": levels}}
        install(app)
        ids = [app.send_task("noop", [n], queue="mail", priority=1).id for n in range(5)]
    conf = {"fair_logical_queues": {"mail": {"levels": {"fast": [0, 9]}}}}
    worker = start_worker(space, queues=["mail", "slow"], conf=conf)
    worker.records.started.wait_once(ids)


def test_what_is_under_another_prefix(redis_space: Space, start_worker: StartWorker) -> None:
    options = {"broker_transport_options": {"global_keyprefix": "old:"}}
    with Celery("shop", broker=redis_space.url, set_as_current=False) as app:
        app.conf.update(options)
        ids = [app.send_task("noop", [n], queue="mail").id for n in range(5)]
    new = {"broker_transport_options": {"global_keyprefix": "new:"}}
    start_worker(redis_space, queues=["mail"], conf=new)
    worker = start_worker(redis_space, queues=["mail"], conf=options)
    worker.records.started.wait_once(ids)


def test_lanes_above_fewer(rabbitmq_space: Space, start_worker: StartWorker) -> None:
    with publisher(rabbitmq_space.url) as app:
        ids = [task for key in range(8) for task in send(app, f"key{key}", 30)]
    conf = {"fair_keys": {QUEUE: {"lanes": 2}}}
    worker = start_worker(rabbitmq_space, queues=[QUEUE], conf=conf)
    worker.records.started.wait_once(ids)
    assert worker.stop() == 0
    assert left(rabbitmq_space, QUEUE) == 0
