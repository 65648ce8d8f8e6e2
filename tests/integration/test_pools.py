"""Every pool on every broker: each task runs, once, and nothing stays behind."""

from __future__ import annotations

from typing import Any

import celery
import pytest

from tests.brokers import Space
from tests.integration.depths import left, unsettled
from tests.integration.gate import Gate
from tests.publishing import publish
from tests.waiting import wait_equal
from tests.workers import StartWorker, WorkerProcess

QUANTA = {"slow": 1, "medium": 5, "fast": 20}
POOLS = {"solo": 1, "threads": 3, "prefork": 2, "gevent": 3, "eventlet": 3}
FAIR = {"fair_queues": {name: {"quantum": quantum} for name, quantum in QUANTA.items()}}


@pytest.mark.parametrize("pool", POOLS)
def test_pool_runs_every_task_once(space: Space, start_worker: StartWorker, pool: str) -> None:
    backlog = publish(space.url, dict.fromkeys(QUANTA, 100))
    late = publish(space.url, {"slow": 1}, countdown=1)
    worker = start_worker(space, pool=pool, concurrency=POOLS[pool], queues=QUANTA, conf=FAIR)
    worker.records.started.wait_once(backlog.all())

    naps = publish(space.url, dict.fromkeys(QUANTA, 5), "nap", [0.01])
    failing = publish(space.url, {"fast": 2}, "fail")

    worker.records.started.wait_once([*naps.all(), *failing.all(), *late.all()])
    worker.records.finished.wait_once(naps.all())
    wait_equal(lambda: left(space, *QUANTA), 0)


@pytest.mark.parametrize("pool", ["gevent", pytest.param("eventlet", marks=pytest.mark.wide)])
def test_greenlets_that_begin_at_once_are_all_acknowledged(
    redis_space: Space, start_worker: StartWorker, pool: str
) -> None:
    """There are more of them than kombu's channel may have connections."""
    quanta = {f"q{number}": 10 * number + 1 for number in range(10)}
    conf = {"fair_queues": {name: {"quantum": quantum} for name, quantum in quanta.items()}}
    ids = publish(redis_space.url, dict.fromkeys(quanta, 200)).all()

    worker = start_worker(redis_space, pool=pool, concurrency=20, queues=quanta, conf=conf)

    worker.records.started.wait_once(ids)
    wait_equal(lambda: left(redis_space, *quanta), 0)
    assert "Couldn't ack" not in worker.log()


@pytest.mark.skipif(celery.VERSION < (5, 7), reason="Celery 5.7 waits for heartbeats of events")
@pytest.mark.parametrize("pool", ["gevent", "eventlet"])
def test_greenlets_wait_for_nothing_between_tasks(
    rabbitmq_space: Space, start_worker: StartWorker, pool: str
) -> None:
    """As those of Celery's own worker do, which starts some ten a second beside it."""
    ids = publish(rabbitmq_space.url, {"ours": 200, "theirs": 200})
    options: dict[str, Any] = {"pool": pool, "concurrency": 8, "quiet": False}
    start_worker(rabbitmq_space, queues=["theirs"], fair=False, **options)
    conf = {"fair_queues": {"ours": {"prefetch": 1}}}  # or it would take in many at a time
    started = start_worker(rabbitmq_space, queues=["ours"], conf=conf, **options).records.started
    started.wait_ids(ids["ours"])
    starts = [record.queue for record in sorted(started.read())]
    theirs = starts[starts.index("ours") :].count("theirs")  # it was ready before
    assert theirs < 67  # a third


@pytest.mark.wide
def test_quorum_queues(rabbitmq_space: Space, start_worker: StartWorker) -> None:
    quorum = {"x-queue-type": "quorum"}
    ids = publish(rabbitmq_space.url, dict.fromkeys(QUANTA, 100), queue_arguments=quorum)
    worker = start_worker(rabbitmq_space, queues=QUANTA, queue_arguments=quorum, conf=FAIR)

    worker.records.started.wait_once(ids.all())
    wait_equal(lambda: left(rabbitmq_space, *QUANTA), 0)
    assert "Traceback" not in worker.log()


WINDOWS = {0: [2, 2, 2], 1: [2, 2, 2], 26: [2, 10, 40]}
"""By the prefetch multiplier, of a worker with two slots: at least two, else as the quanta."""


LOOKING = """
from tests.apps.shares import *

@worker_ready.connect
def say_whether(sender, **_):
    pool = sender.pool._pool
    print("quiet" if "maintain_pool" in vars(pool) and pool.maintain_pool in pool.timers else "not")
"""


def test_processes_are_replaced_quietly(redis_space: Space, start_worker: StartWorker) -> None:
    """Else one that dies, and whose last result is read then, could have the pool grow amid it."""
    worker = start_worker(redis_space, app=LOOKING, pool="prefork", queues=["a"])
    wait_equal(lambda: "quiet\n" in worker.log(), True)


@pytest.mark.parametrize(
    "multiplier", [*(pytest.param(few, marks=pytest.mark.wide) for few in (0, 1)), 26]
)
def test_prefetch_multiplier_is_what_all_windows_hold(
    rabbitmq_space: Space, start_worker: StartWorker, gate: Gate, multiplier: int
) -> None:
    conf = FAIR | {"worker_prefetch_multiplier": multiplier}
    worker = start_worker(rabbitmq_space, pool="threads", concurrency=2, queues=QUANTA, conf=conf)
    assert windows(worker) == WINDOWS[multiplier]
    gate.hold(worker, "fast", 2)
    ids = publish(rabbitmq_space.url, dict.fromkeys(QUANTA, 50))

    def held() -> list[int]:
        return [unsettled(rabbitmq_space, name) for name in QUANTA]

    wait_equal(lambda: held() == windows(worker), True)
    grown = zip(held(), WINDOWS[multiplier], strict=True)
    assert all(now >= first for now, first in grown)
    if multiplier == max(WINDOWS):  # more than they would adapt to
        assert held() == WINDOWS[multiplier]

    gate.open()
    worker.records.started.wait_once(ids.all())


def windows(worker: WorkerProcess) -> list[int]:
    fair = worker.inspect("stats")["fair"]
    return [fair[name]["window"] for name in QUANTA]
