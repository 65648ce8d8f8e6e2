"""What was handed to the pool runs, even if the worker is told to stop in the same moment.

So it does if the connection is lost then, and whatever the processes of the pool are at.
"""

from __future__ import annotations

import pytest

from tests.brokers import Space
from tests.faults.proxy import Proxy
from tests.integration.depths import left
from tests.integration.gate import Gate
from tests.once.conftest import DeadLetters
from tests.publishing import publish
from tests.waiting import wait_equal
from tests.workers import StartWorker

APP = """\
import os
import signal

from celery.signals import task_received

from tests.apps.once import *


@task_received.connect
def stop(**_):
    os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.mark.either_broker
@pytest.mark.parametrize("pool", ["threads", "prefork"])
@pytest.mark.parametrize("task", ["before", "after", "confirmed"])
def test_told_to_stop_while_a_task_is_handed_over(
    space: Space, start_worker: StartWorker, dead_letters: DeadLetters, pool: str, task: str
) -> None:
    first = start_worker(space, app=APP, pool=pool, concurrency=2, queues=["a"])
    ids = publish(space.url, {"a": 1}, task).all()
    assert first.wait(60) == 0

    second = start_worker(space, app="tests.apps.once", queues=["a"])
    ids += publish(space.url, {"a": 1}, task).all()
    second.records.finished.wait_ids(ids[1:])

    assert dead_letters() == {}
    second.records.finished.wait_once(ids, timeout=5)


WAITED_FOR = """
import os

from celery.signals import worker_process_init, worker_process_shutdown
from celery_fair.worker.launch import pool
from tests.apps.once import *

settle = pool.settle

def told(*args, **options):
    print("settles")
    settle(*args, **options)
    pool.settle = lambda _: None  # what is late for this is lost

pool.settle = told
"""
BOOTS = f"""{WAITED_FOR}
pool._PATIENCE = 2.0

@worker_process_init.connect
def load_a_model(**_):
    wait_at(os.environ["GATE"])
    work_for(3)
"""
EXITS = f"""{WAITED_FOR}
@worker_process_shutdown.connect
def take_leave(**_):
    wait_at(os.environ["GATE"])
"""


@pytest.mark.parametrize("cut", [False, True], ids=["stopped", "cut"])
@pytest.mark.parametrize(
    ("app", "args", "count"),
    [(BOOTS, [], 1), (EXITS, ["--max-tasks-per-child=1"], 2)],
    ids=["boots", "exits"],
)
def test_a_process_that_is_not_ready_yet_or_no_longer(
    rabbitmq_space: Space,
    start_worker: StartWorker,
    gate: Gate,
    app: str,
    args: list[str],
    count: int,
    cut: bool,
) -> None:
    """The last message is acknowledged, and for a process that has not begun, or has ended."""
    with Proxy(rabbitmq_space) as proxy:
        env = {"GATE": str(gate.path)}
        worker = start_worker(proxy.url, app=app, pool="prefork", queues=["a"], args=args, env=env)
        ids = publish(rabbitmq_space.url, {"a": count}, "before").all()
        wait_equal(lambda: left(rabbitmq_space, "a"), 0)

        if cut:
            proxy.cut()
        else:
            worker.sigterm()
        wait_equal(lambda: "settles" in worker.log(), True)
        gate.open()

        worker.records.finished.wait_once(ids)
        assert cut or worker.wait() == 0
