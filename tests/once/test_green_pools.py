"""Dead letters in pools of greenlets, which share their connection with whoever waits on it."""

from __future__ import annotations

import pytest

from tests.brokers import Space
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


@pytest.mark.wide
@pytest.mark.parametrize("pool", ["gevent", "eventlet"])
def test_a_worker_ends_when_it_is_asked_to(
    space: Space, start_worker: StartWorker, dead_letters: DeadLetters, pool: str
) -> None:
    """What it holds goes back, though the signal's handler runs where nothing may wait."""
    worker = start_worker(space, app="tests.apps.once", pool=pool, concurrency=1, queues=QUEUES)
    ids = publish(space.url, {"a": 10}, "before", ("", 2)).all()
    worker.records.started.wait(1)
    assert worker.stop() == 0, worker.log()
    done = {record.id for record in worker.records.finished.read()}
    assert len(done) < 10
    assert dead_letters() == {}
    later = start_worker(
        space,
        app="tests.apps.once",
        pool=pool,
        concurrency=10,
        queues=QUEUES,
        records=worker.records,
    )
    later.records.finished.wait_once(set(ids) - done)
