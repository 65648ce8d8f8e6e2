"""Warm and cold shutdown: what runs ends or returns, what was buffered goes back at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.brokers import Space
from tests.integration.depths import left, ready, unsettled
from tests.integration.gate import Gate
from tests.publishing import publish
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker, WorkerProcess

FAIR = {"fair_queues": {"a": {"quantum": 3}, "b": {"quantum": 1}}}
LATE = FAIR | {"task_acks_late": True, "broker_transport_options": {"visibility_timeout": 600}}
QUEUES = ["a", "b"]
BACKLOG = 20


@pytest.mark.parametrize("pool", ["threads"])
@pytest.mark.parametrize("conf", [FAIR, LATE], ids=["early", "late"])
def test_warm_shutdown(
    space: Space, start_worker: StartWorker, gate: Gate, pool: str, conf: dict[str, object]
) -> None:
    worker = start_worker(space, pool=pool, concurrency=2, queues=QUEUES, conf=conf)
    held = gate.hold(worker, "a", 2)
    backlog = publish(space.url, dict.fromkeys(QUEUES, BACKLOG))
    later = publish(space.url, {"a": BACKLOG}, countdown=600).all()
    if space.kind == "rabbitmq":  # from Redis nothing is taken while no slot is free
        wait_equal(lambda: ready(space, *QUEUES) < 3 * BACKLOG, True)

    worker.sigterm()

    wait_equal(lambda: ready(space, *QUEUES), 3 * BACKLOG)
    wait_equal(lambda: unsettled(space, *QUEUES), 2 if conf is LATE else 0)
    assert worker.running
    gate.open()
    assert worker.wait() == 0
    assert worker.records.finished.times(held) == dict.fromkeys(held, 1)
    more = len(worker.records.started) - len(held)
    assert more == 0 or space.kind == "redis"  # there, nothing shows that the signal was heard
    assert ready(space, *QUEUES) == 3 * BACKLOG - more
    assert unsettled(space, *QUEUES) == 0

    second = start_worker(space, queues=QUEUES, conf=conf)
    second.records.started.wait_once([*held, *backlog.all()])
    assert not second.records.started.times(later)


@pytest.mark.newest
@pytest.mark.either_broker
def test_messages_that_come_during_a_shutdown(space: Space, start_worker: StartWorker) -> None:
    """Each starts once, in this worker or in the next, however close to the end it came."""
    ids: list[str] = []
    with ThreadPoolExecutor(1) as aside:
        for _ in range(2):
            worker = start_worker(space, pool="threads", queues=QUEUES, conf=FAIR)
            sending = aside.submit(
                lambda: [publish(space.url, {"a": 1, "b": 1}).all() for _ in range(100)]
            )
            worker.records.started.wait(len(ids) + 50)
            worker.sigterm()
            ids += [task for pair in sending.result() for task in pair]
            assert worker.wait() == 0
            assert "Traceback" not in worker.log()

    last = start_worker(space, queues=QUEUES, conf=FAIR)

    wait_for(
        lambda: set(last.records.started.times(ids)) == set(ids),
        60,
        lambda: (
            f"the start of {set(ids) - set(last.records.started.times(ids))}; the broker has"
            f" {ready(space, *QUEUES)}, and {unsettled(space, *QUEUES)} that some worker holds"
        ),
    )
    last.records.started.wait_once(ids)
    wait_equal(lambda: left(space, *QUEUES), 0)


@pytest.mark.either_broker
@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_idle_worker_stops_at_once(space: Space, start_worker: StartWorker, pool: str) -> None:
    worker = start_worker(space, pool=pool, queues=QUEUES, conf=FAIR)
    later = publish(space.url, {"a": BACKLOG}, countdown=600).all()
    wait_equal(lambda: ready(space, *QUEUES), 0)

    assert worker.stop() == 0

    assert ready(space, "a") == len(later)
    assert unsettled(space, *QUEUES) == 0
    assert "Traceback" not in worker.log()


@pytest.mark.parametrize(
    "conf", [pytest.param(FAIR, id="early"), pytest.param(LATE, id="late", marks=pytest.mark.wide)]
)
def test_cold_shutdown(
    space: Space, start_worker: StartWorker, gate: Gate, conf: dict[str, object]
) -> None:
    worker = start_worker(space, pool="prefork", concurrency=2, queues=QUEUES, conf=conf)
    held = gate.hold(worker, "a", 2)
    publish(space.url, dict.fromkeys(QUEUES, BACKLOG))
    if space.kind == "rabbitmq":
        wait_equal(lambda: ready(space, *QUEUES) < 2 * BACKLOG, True)
    # Celery stops its pool from within the signal handler: while that is receiving, it may hang.
    wait_equal(lambda: len(worker.inspect("active")), 2)

    worker.sigquit()

    worker.wait()
    assert not worker.records.finished.times(held)
    back = 2 * BACKLOG + (2 if conf is LATE else 0)
    wait_equal(lambda: ready(space, *QUEUES), back)
    assert left(space, *QUEUES) == back


def test_cold_shutdown_acknowledges_nothing_that_it_breaks_off(
    rabbitmq_space: Space, start_worker: StartWorker, gate: Gate
) -> None:
    worker = start_worker(rabbitmq_space, app="tests.apps.once", queues=["a"])  # a solo pool
    held = publish(rabbitmq_space.url, {"a": 1}, "after", [str(gate.path)]).all()
    worker.records.started.wait_ids(held)

    worker.sigquit()

    worker.wait()
    wait_equal(lambda: ready(rabbitmq_space, "a"), 1)
    assert not worker.records.finished.times(held)


@pytest.mark.parametrize("pool", ["gevent", "eventlet"])
def test_nor_does_one_that_kills_greenlets(
    redis_space: Space, start_worker: StartWorker, gate: Gate, pool: str
) -> None:
    """On RabbitMQ Celery's handler fails before that: there it would have to wait for an answer."""
    conf = {"broker_transport_options": {"visibility_timeout": 600}}
    worker = start_worker(redis_space, app="tests.apps.once", pool=pool, queues=["a"], conf=conf)
    held = publish(redis_space.url, {"a": 1}, "after", [str(gate.path)]).all()
    worker.records.started.wait_ids(held)

    worker.sigquit()

    worker.wait()
    assert left(redis_space, "a") == 1
    assert not worker.records.finished.times(held)


@pytest.mark.parametrize("ack", ["before", "after"])
def test_what_a_cold_shutdown_breaks_off_and_nobody_starts_again_has_failed(
    rabbitmq_space: Space, start_worker: StartWorker, gate: Gate, tmp_path: Path, ack: str
) -> None:
    """Celery says that it is tried again, for which its publisher would wait for ever."""
    conf = {"result_backend": tmp_path.as_uri(), "task_ignore_result": False}
    options = {"app": "tests.apps.once", "pool": "prefork", "queues": ["a"], "conf": conf}
    worker = start_worker(rabbitmq_space, **options)
    (held,) = publish(rabbitmq_space.url, {"a": 1}, ack, [str(gate.path)]).all()
    wait_equal(lambda: len(worker.inspect("active")), 1)

    worker.sigquit()

    worker.wait()
    assert worker.client.AsyncResult(held).state == "FAILURE"


@pytest.mark.parametrize(
    "space", ["rabbitmq", pytest.param("redis", marks=pytest.mark.wide)], indirect=True
)
def test_remote_shutdown(space: Space, start_worker: StartWorker) -> None:
    worker = start_worker(space, queues=QUEUES, conf=FAIR)
    assert worker.control("ping")  # on Redis a command that comes too early is lost
    worker.client.control.shutdown(destination=[worker.hostname])
    assert worker.wait() == 0


def test_prefork_without_an_event_loop(tmp_path: Path) -> None:
    """There the pool has nothing to flush."""
    worker = WorkerProcess("memory://", tmp_path, pool="prefork", queues=QUEUES, conf=FAIR)
    try:
        assert worker.wait_ready().stop() == 0
        assert "Traceback" not in worker.log()
    finally:
        worker.end()
