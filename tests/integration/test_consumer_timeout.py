"""RabbitMQ closes a channel on which a message was unacknowledged for too long.

Thirty minutes by default; here it is two seconds, and the broker looks twice a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.brokers import RabbitMQ, Space
from tests.conftest import running
from tests.integration.depths import left, ready
from tests.integration.gate import Gate
from tests.integration.patience import run_out
from tests.publishing import publish
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker

CLOSED = "closed the channel of queue"


@pytest.fixture(scope="module")
def impatient() -> Iterator[RabbitMQ]:
    yield from running(RabbitMQ(consumer_timeout=2_000, channel_tick_interval=500))


@pytest.fixture
def place(impatient: RabbitMQ) -> Space:
    return impatient.space()


def test_a_queue_whose_channel_is_closed(
    place: Space, start_worker: StartWorker, gate: Gate
) -> None:
    """The other queues notice nothing; it is consumed again."""
    conf: dict[str, Any] = {"fair_queues": {"held": {"max_in_flight": 1}, "other": {}}}
    worker = start_worker(place, pool="threads", concurrency=2, queues=["held", "other"], conf=conf)
    first = gate.hold(worker, "held")
    held = publish(place.url, {"held": 5}).all()

    wait_for(lambda: CLOSED in worker.log(), 30, "the broker to close the channel")

    other = publish(place.url, {"other": 5}).all()
    worker.records.started.wait_once(other)
    gate.open()
    worker.records.started.wait_once([*first, *held])
    wait_equal(lambda: left(place, "held", "other"), 0)
    assert "Traceback" not in worker.log()
    assert worker.stop() == 0


@pytest.mark.parametrize("task", ["plain", "before"])
def test_what_waits_goes_back_before_the_time(
    place: Space, start_worker: StartWorker, gate: Gate, task: str
) -> None:
    """Whatever keeps it from starting; and it is neither lost, nor taken for one that started."""
    queues: dict[str, Any] = {
        "capped": {"max_in_flight": 1},
        "leashed": {"rate": "1/h", "prefetch": 3},
        "free": {},
    }
    worker = start_worker(
        place,
        app="tests.apps.once",
        pool="threads",
        concurrency=4,
        queues=list(queues),
        conf={"fair_queues": queues, "fair_give_back_after": 0.5},
    )
    publish(place.url, {"capped": 1}, task, [str(gate.path)])
    leashed = publish(place.url, {"leashed": 4}, task).all()
    worker.records.started.wait(2)
    capped = publish(place.url, {"capped": 3}, task).all()
    later = publish(place.url, {"free": 3}, task, countdown=6).all()

    wait_equal(lambda: ready(place, "capped", "leashed"), 6)
    for _ in range(2):
        run_out(place)
        free = publish(place.url, {"free": 5}, task).all()
        worker.records.started.wait_once(free)
    gate.open()

    worker.records.started.wait_once([*capped, *later])
    assert len(worker.records.started.times(leashed)) == 1
    assert CLOSED not in worker.log()
    assert "Traceback" not in worker.log()
    assert worker.stop() == 0
    assert left(place, "capped", "leashed", "free", "dead-letters") == 3


@pytest.mark.parametrize("task", ["plain", "before", "confirmed"])
def test_while_the_loop_stands_still(
    place: Space, start_worker: StartWorker, gate: Gate, task: str
) -> None:
    """As in a task of a solo pool: the broker says it twice before anybody listens."""
    worker = start_worker(place, app="tests.apps.once", pool="solo", concurrency=1, queues=["q"])
    gate.hold(worker, "q")
    publish(place.url, {"q": 3}, task)
    for _ in range(2):
        run_out(place)
    gate.open()
    worker.records.started.wait_once(publish(place.url, {"q": 5}, "plain").all())
    wait_equal(lambda: left(place, "q"), 0)
    assert "Traceback" not in worker.log()
    assert worker.stop() == 0


@pytest.mark.parametrize("pool", ["gevent", "eventlet", "threads"])
def test_what_goes_back_before_its_eta_starts_once(
    place: Space, start_worker: StartWorker, pool: str
) -> None:
    """Each kind of pool has timers of its own."""
    conf = {"fair_give_back_after": 1}
    worker = start_worker(place, pool=pool, concurrency=4, queues=["q"], conf=conf)
    later = publish(place.url, {"q": 3}, countdown=4).all()
    last = publish(place.url, {"q": 1}, countdown=6).all()
    worker.records.started.wait_once([*later, *last])
    assert "Traceback" not in worker.log()
    assert worker.stop() == 0
