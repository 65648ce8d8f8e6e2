"""Celery's map, starmap and chunks run a task's work within one of Celery's own, repeatable one."""

from __future__ import annotations

import pytest
from celery import Celery, chunks, xmap, xstarmap

from tests.brokers import Space
from tests.integration.depths import left
from tests.once.conftest import DeadLetters
from tests.waiting import wait_equal
from tests.workers import StartWorker

APP = """
from celery_fair import NonRepeatableTask
from tests.apps.shares import *


def work(item):
    finished("a", item, 0)


app.task(name="report")(work)
app.task(base=NonRepeatableTask, name="charge")(work)
"""


def publish(client: Celery, name: str) -> None:
    task = client.signature(name)
    xmap(task, [f"{name}1"], app=client).apply_async(queue="a", task_id=f"map {name}")
    xstarmap(task, [[f"{name}2"]], app=client).apply_async(queue="a", task_id=f"starmap {name}")
    chunks(task, [[f"{name}3"]], 1, app=client).apply_async(queue="a")
    client.send_task("celery.map", (task, [f"{name}4"]), queue="a", task_id=f"by place {name}")
    client.conf.task_protocol = 1
    xmap(task, [f"{name}5"], app=client).apply_async(queue="a", task_id=f"old {name}")
    client.conf.task_protocol = 2


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "plain"])
def test_messages_that_would_are_refused(
    space: Space, start_worker: StartWorker, dead_letters: DeadLetters, fast: bool
) -> None:
    worker = start_worker(space, app=APP, queues=["a"], conf={"fair_fast_path": fast})
    with Celery("client", broker=space.url, set_as_current=False) as client:
        client.conf.task_ignore_result = True
        publish(client, "charge")
        publish(client, "report")

    reports = [f"report{number}" for number in range(1, 6)]
    worker.records.finished.wait_ids(reports)  # that they are there nobody has confirmed
    wait_equal(lambda: left(space, "a"), 0)
    assert worker.stop() == 0
    done = sorted(record.id for record in worker.records.finished.read())
    assert done == reports
    dead = dead_letters()
    assert {letter["x-fair-reason"] for letter in dead.values()} == {"malformed"}
    assert {letter["x-fair-may-have-started"] for letter in dead.values()} == {False}
    assert all("charge is non-repeatable" in letter["x-fair-detail"] for letter in dead.values())
    assert len(dead) == 5
    assert {"map charge", "starmap charge", "by place charge"} < dead.keys()
