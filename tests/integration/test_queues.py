"""Which queues a fair worker consumes: by settings, by -Q and -X, by remote control."""

from __future__ import annotations

import pytest

from tests.brokers import Space
from tests.integration.depths import left, ready
from tests.integration.gate import Gate
from tests.publishing import publish
from tests.waiting import wait_equal
from tests.workers import StartWorker, WorkerProcess

FAIR = {"fair_queues": {"named": {"quantum": 3}, "other": {}}}
DEFAULT = "celery"


def consumed(worker: WorkerProcess) -> set[str]:
    return {queue["name"] for queue in worker.inspect("active_queues")}


@pytest.mark.parametrize(
    ("queues", "args", "expected"),
    [
        (None, [], {DEFAULT, "named", "other"}),
        (["mine"], [], {"mine", "named", "other"}),
        (["mine"], ["-Q", "named"], {"named"}),
        (["mine"], ["-Q", "mine,new"], {"mine", "new"}),
        (["mine"], ["-X", "named,mine"], {"other"}),
    ],
    ids=["default", "task_queues", "select", "select new", "exclude"],
)
def test_what_is_consumed_at_the_start(
    rabbitmq_space: Space,
    start_worker: StartWorker,
    queues: list[str] | None,
    args: list[str],
    expected: set[str],
) -> None:
    worker = start_worker(rabbitmq_space, queues=queues, args=args, conf=FAIR)

    assert consumed(worker) == expected
    ids = publish(rabbitmq_space.url, dict.fromkeys([*expected, "named", "mine"], 2))
    runs = [task for queue in expected for task in ids[queue]]
    worker.records.started.wait_once(runs)
    assert len(worker.records.started) == len(runs)


@pytest.fixture(scope="module")
def worker(module_space: Space, start_module_worker: StartWorker) -> WorkerProcess:
    return start_module_worker(module_space, pool="threads", conf=FAIR)


def test_queue_of_fair_queues_is_declared(worker: WorkerProcess, module_space: Space) -> None:
    if module_space.kind == "rabbitmq":
        assert {"named", "other"} <= module_space.depths().keys()
    message = worker.client.send_task("noop", [0], queue="named")
    worker.records.started.wait_once([message.id])


def test_add_consumer(worker: WorkerProcess, module_space: Space) -> None:
    ids = publish(module_space.url, {"added": 20})
    assert "ok" in worker.control("add_consumer", queue="added")
    worker.records.started.wait_once(ids.all())

    assert "ok" in worker.control("add_consumer", queue="added")
    worker.records.started.wait_once(publish(module_space.url, {"added": 5}).all())
    assert "added" in consumed(worker)


def test_cancelled_queue_gets_back_what_was_buffered(
    worker: WorkerProcess, module_space: Space, gate: Gate
) -> None:
    gate.hold(worker, "named")
    worker.control("add_consumer", queue="backlogged")
    ids = publish(module_space.url, {"backlogged": 30, "other": 3})
    if module_space.kind == "rabbitmq":  # from Redis nothing is taken while no slot is free
        wait_equal(lambda: ready(module_space, "backlogged") < 30, True)

    worker.cancel_consumer("backlogged")

    wait_equal(lambda: ready(module_space, "backlogged"), 30)
    gate.open()
    worker.records.started.wait_once(ids["other"])
    assert not worker.records.started.times(ids["backlogged"])
    worker.control("add_consumer", queue="backlogged")
    worker.records.started.wait_once(ids["backlogged"])
    wait_equal(lambda: left(module_space, "backlogged", "other", "named"), 0)


def test_running_task_of_a_cancelled_queue_ends_well(
    worker: WorkerProcess, module_space: Space, gate: Gate
) -> None:
    worker.control("add_consumer", queue="brief")
    held = gate.hold(worker, "brief")
    worker.control("cancel_consumer", queue="brief")
    gate.open()

    worker.records.finished.wait_once(held)
    wait_equal(lambda: left(module_space, "brief"), 0)


def test_eta_of_a_cancelled_queue_is_not_lost(worker: WorkerProcess, module_space: Space) -> None:
    worker.control("add_consumer", queue="later")
    ids = publish(module_space.url, {"later": 3}, countdown=1)
    wait_equal(lambda: ready(module_space, "later"), 0)
    worker.control("cancel_consumer", queue="later")

    worker.control("add_consumer", queue="later")
    worker.records.started.wait_once(ids.all())
    wait_equal(lambda: left(module_space, "later"), 0)


@pytest.mark.parametrize("pool", ["solo", "threads"])
def test_deleted_queue_is_declared_again(
    rabbitmq_space: Space, start_worker: StartWorker, pool: str
) -> None:
    worker = start_worker(rabbitmq_space, pool=pool, conf=FAIR, queues=["mine"])
    assert "named" in rabbitmq_space.depths()

    for _ in range(2):
        with worker.client.connection_for_write() as connection:
            connection.default_channel.queue_delete("named")
        worker.records.started.wait_once(publish(rabbitmq_space.url, {"other": 3}).all())
        wait_equal(lambda: "named" in rabbitmq_space.depths(), True)
        ids = publish(rabbitmq_space.url, {"named": 3, "mine": 3})
        worker.records.started.wait_once(ids.all())
    assert "named" in consumed(worker)


def test_backlogged_queue_is_deleted(rabbitmq_space: Space, start_worker: StartWorker) -> None:
    """Others are not affected, whatever becomes of what was buffered."""
    ids = publish(rabbitmq_space.url, {"named": 2000, "other": 2000})
    worker = start_worker(rabbitmq_space, conf=FAIR)
    worker.records.started.wait(50)

    with worker.client.connection_for_write() as connection:
        connection.default_channel.queue_delete("named")

    worker.records.started.wait_once(ids["other"])
    after = publish(rabbitmq_space.url, {"named": 5})
    worker.records.started.wait_once(after.all())
    assert worker.records.started.repeated() == []
