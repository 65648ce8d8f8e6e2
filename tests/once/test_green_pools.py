"""Dead letters in pools of greenlets, which share their connection with whoever waits on it."""

from __future__ import annotations

import pytest

from tests.brokers import Space
from tests.faults.proxy import Proxy
from tests.once.conftest import DeadLetters
from tests.publishing import publish
from tests.waiting import wait_equal
from tests.workers import StartWorker

QUEUES = ["a", "b"]


@pytest.mark.wide
@pytest.mark.parametrize("pool", ["gevent", "eventlet"])
def test_the_work_goes_on_after_a_dead_letter(
    space: Space, start_worker: StartWorker, dead_letters: DeadLetters, pool: str
) -> None:
    worker = start_worker(space, app="tests.apps.once", pool=pool, concurrency=2, queues=QUEUES)
    first = publish(space.url, dict.fromkeys(QUEUES, 6), "plain").all()
    unknown = publish(space.url, {"a": 1}, "nosuchtask").all()
    worker.records.finished.wait_once(first)
    wait_equal(lambda: sorted(dead_letters()), unknown)

    worker.records.finished.wait_once(publish(space.url, dict.fromkeys(QUEUES, 6), "plain").all())
    assert worker.stop() == 0


@pytest.mark.parametrize("pool", ["gevent", pytest.param("eventlet", marks=pytest.mark.wide)])
def test_idle_workers_end_when_they_are_asked_to(
    space: Space, start_worker: StartWorker, pool: str
) -> None:
    """The signal's handler runs where nothing may wait for an answer, which the proxy delays."""
    with Proxy(space) as proxy:
        workers = [
            start_worker(proxy.url, wait=False, app="tests.apps.once", pool=pool, queues=QUEUES)
            for _ in range(3)
        ]
        for worker in workers:
            worker.wait_ready()
        for worker in workers:
            assert worker.stop() == 0, worker.log()
