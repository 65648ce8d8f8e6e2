"""RabbitMQ closes a channel on which a message was unacknowledged for too long.

Thirty minutes by default; here it is two seconds, and the broker looks twice a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kombu import Queue

from tests.apps.settings import CONSTANTS, GIVEN_BACK_AFTER, TRIED_AFTER
from tests.brokers import RabbitMQ, Space
from tests.eventlog.test_required import SAID, disk, start
from tests.groups.fleet import QUEUE, STEADY, Fleet, check_one_by_one
from tests.integration.depths import left, ready, unsettled
from tests.integration.gate import Gate
from tests.integration.patience import run_out
from tests.publishing import publish
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker

CLOSED = "closed the channel of queue"
SOON: dict[str, Any] = {CONSTANTS: {GIVEN_BACK_AFTER: 0.5}}


@pytest.fixture(scope="module")
def impatient(hurt_rabbitmq: RabbitMQ) -> Iterator[RabbitMQ]:
    with hurt_rabbitmq.setting(consumer_timeout=2_000, channel_tick_interval=500):
        yield hurt_rabbitmq


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
        conf={"fair_queues": queues} | SOON,
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


@pytest.mark.parametrize("option", ["auto_delete", "expires"])
def test_what_waits_in_a_queue_that_goes_with_its_consumer(
    place: Space, start_worker: StartWorker, gate: Gate, option: str
) -> None:
    """It goes back as well, but the worker stays subscribed: else all of it would be lost."""
    app = f"""
from tests.apps.shares import *

app.conf.task_queues = [Queue("brief", routing_key="brief", {option}=1)]
"""
    worker = start_worker(place, app=app, pool="threads", concurrency=1, conf=SOON)
    queue = Queue("brief", routing_key="brief", **{option: 1})
    tasks = [worker.client.signature("hold", [seq, str(gate.path)]) for seq in range(11)]
    first, *behind = [task.apply_async(queue=queue).id for task in tasks]
    worker.records.started.wait_ids([first])
    for _ in range(2):
        run_out(place)
    assert left(place, "brief") == len(behind)
    gate.open()
    worker.records.started.wait_once([first, *behind])
    assert CLOSED not in worker.log()
    assert worker.stop() == 0


@pytest.mark.wide
def test_what_waits_for_the_event_log(
    place: Space, start_worker: StartWorker, tmp_path: Path
) -> None:
    """However often it is tried meanwhile whether that can be written."""
    often = {CONSTANTS: SOON[CONSTANTS] | {TRIED_AFTER: 0.2}}
    with disk(tmp_path / "log", False) as log:
        worker = start(start_worker, place, log.folder, conf=often)
        log.fill()
        held = publish(place.url, {"a": 3}, "before").all()
        wait_for(lambda: SAID in worker.log(), 30, worker.log)
        run_out(place)
        log.free()
        worker.records.finished.wait_once(held)
        assert CLOSED not in worker.log()
        assert worker.stop() == 0
    assert left(place, "a", "dead-letters") == 0


@pytest.mark.parametrize(
    "task",
    ["plain", *(pytest.param(task, marks=pytest.mark.wide) for task in ("before", "confirmed"))],
)
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
    """Each kind of pool has timers of its own. The queue says for how long the broker waits."""
    own = {"x-consumer-timeout": 2_000}
    worker = start_worker(place, pool=pool, concurrency=4, queues=["q"], queue_arguments=own)
    later = publish(place.url, {"q": 3}, countdown=4, queue_arguments=own).all()
    last = publish(place.url, {"q": 1}, countdown=6, queue_arguments=own).all()
    worker.records.started.wait_once([*later, *last])
    assert CLOSED not in worker.log()
    assert "Traceback" not in worker.log()
    assert worker.stop() == 0


@pytest.mark.parametrize("task", [pytest.param("plain", marks=pytest.mark.wide), "before"])
def test_what_waits_for_its_eta_when_its_queue_is_cancelled(
    place: Space, start_worker: StartWorker, task: str
) -> None:
    """It goes back as any other, and nothing is said of a queue that is consumed again."""
    pool: dict[str, Any] = {"app": "tests.apps.once", "pool": "threads", "concurrency": 2}
    worker = start_worker(place, queues=["q", "other"], conf=SOON, **pool)
    later = publish(place.url, {"q": 3}, task, countdown=20).all()
    wait_equal(lambda: unsettled(place, "q"), len(later))

    worker.cancel_consumer("q")

    wait_equal(lambda: ready(place, "q"), len(later))
    run_out(place)
    assert "closed the channel" not in worker.log()
    worker.control("add_consumer", queue="q")
    worker.records.started.wait_once(later)
    assert "Traceback" not in worker.log()
    assert worker.stop() == 0
    assert left(place, "q", "dead-letters") == 0


def test_it_goes_back_too_when_the_worker_stops(
    rabbitmq_space: Space, start_worker: StartWorker
) -> None:
    """Else it would count as redelivered, and be a dead letter that has never started."""
    pool: dict[str, Any] = {"app": "tests.apps.once", "pool": "threads", "queues": ["q", "other"]}
    worker = start_worker(rabbitmq_space, **pool)
    assert worker.inspect("ping")  # it hears of the end before they are due
    later = publish(rabbitmq_space.url, {"q": 3}, "before", countdown=5).all()
    wait_equal(lambda: unsettled(rabbitmq_space, "q"), len(later))
    worker.cancel_consumer("q")
    assert worker.stop() == 0

    start_worker(rabbitmq_space, **pool).records.started.wait_once(later)
    assert left(rabbitmq_space, "dead-letters") == 0


def test_what_is_said_when_a_cancelled_queue_loses_its_channel(
    impatient: RabbitMQ, place: Space, start_worker: StartWorker, gate: Gate
) -> None:
    conf = {"task_acks_late": True}
    with impatient.setting(consumer_timeout=6_000):  # it is to be cancelled before
        worker = start_worker(place, pool="threads", queues=["q", "other"], conf=conf)
    assert worker.inspect("ping")
    held = gate.hold(worker, "q")
    worker.cancel_consumer("q")
    wait_equal(lambda: ready(place, "q"), len(held), timeout=30)
    gate.open()
    worker.records.started.wait_once(publish(place.url, {"other": 5}).all())
    wait_for(lambda: "closed the channel" in worker.log(), 30, worker.log)
    assert "is consumed no more" in worker.log()
    assert "consumed again" not in worker.log()
    assert worker.stop() == 0


@pytest.mark.parametrize("task", [pytest.param("keyed", marks=pytest.mark.wide), "keyed_once"])
def test_what_waits_behind_its_key(
    place: Space, start_worker: StartWorker, gate: Gate, tmp_path: Path, task: str
) -> None:
    """It stays in its order as long as nothing is published behind it."""
    fleet = Fleet(place, start_worker, tmp_path, f"sqlite:///{tmp_path}/g.db", 1, lease=STEADY)
    fleet.conf["fair_partitions"][QUEUE]["serial"] = "key"
    worker = fleet.worker(**SOON)
    fleet.publish(["a"], 1, task, gate=str(gate.path))
    wait_for(lambda: len(fleet.of("began")) == 1, 30, worker.log)
    fleet.publish(["a"], 5, task)

    for _ in range(2):
        run_out(place)
    fleet.publish(["b"], 1, task)
    wait_for(lambda: len(fleet.of("ended")) == 1, 30, lambda: str(fleet.events))
    gate.open()

    wait_for(lambda: len(fleet.of("ended")) == 7, 30, lambda: str(fleet.events))
    check_one_by_one(fleet, {"a": [0, *range(5)], "b": [0]})
    assert CLOSED not in worker.log()
    assert worker.stop() == 0
    assert left(place, "dead-letters") == 0
