"""A queue that is deleted, and then declared otherwise by somebody else; or not there yet."""

from __future__ import annotations

import psutil
from kombu import Connection, Queue

from tests.brokers import Space
from tests.publishing import publish
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker

FAIR = {"fair_queues": {"other": {}, "taken": {}}}
LIMITED = {"x-max-length": 50}
DECLARED_BY_OTHERS = """
from tests.apps.shares import *

app.conf.task_queues = [Queue("ops", no_declare=True), Queue("other", routing_key="other")]
"""


def test_it_is_tried_again_and_takes_orders_meanwhile(
    rabbitmq_space: Space, start_worker: StartWorker
) -> None:
    url = rabbitmq_space.url
    worker = start_worker(rabbitmq_space, conf=FAIR, loglevel="INFO")
    assert worker.inspect("ping")  # it hears what comes while the queue is suspended
    process = psutil.Process(worker.pid)
    process.suspend()
    with Connection(url) as connection:
        connection.default_channel.queue_delete("taken")
        Queue("taken", routing_key="taken", queue_arguments=LIMITED)(connection).declare()
    process.resume()
    wait_for(lambda: "Cannot consume queue taken" in worker.log(), 60, worker.log)

    assert worker.control("fair_explain", queue="taken")["reason"] == "suspended"
    assert worker.control("fair_pause", queue="taken") == {"ok": "taken: paused"}
    assert "ok" in worker.control("fair_set", queue="taken", options={"quantum": 3})
    worker.records.started.wait_once(publish(url, {"other": 5}).all())

    wait_for(lambda: "Queue taken is consumed now" in worker.log(), 60, worker.log)
    row = worker.control("fair_status")["taken"]
    assert (row["quantum"], row["held"]) == (3, "paused")
    ids = publish(url, {"taken": 5}, queue_arguments=LIMITED).all()
    assert worker.control("fair_resume", queue="taken") == {"ok": "taken: resumed"}
    worker.records.started.wait_once(ids)
    assert worker.log().count("Cannot consume queue taken") == 1
    assert worker.stop() == 0


def test_one_that_others_are_to_declare(rabbitmq_space: Space, start_worker: StartWorker) -> None:
    """Until they have, it is asked for now and then, and is in nobody's way; also when it goes."""
    url = rabbitmq_space.url
    worker = start_worker(rabbitmq_space, app=DECLARED_BY_OTHERS)
    for times in (1, 2):
        wait_equal(lambda: worker.log().count("Cannot consume queue ops"), times)
        worker.records.started.wait_once(publish(url, {"other": 5}).all())
        worker.records.started.wait_once(publish(url, {"ops": 5}).all())
        assert worker.log().count("Queue ops is consumed now") == times
        with Connection(url) as connection:
            connection.default_channel.queue_delete("ops")
    wait_equal(lambda: worker.log().count("Cannot consume queue ops"), 3)
    assert worker.stop() == 0
