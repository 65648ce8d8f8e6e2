"""A queue that is deleted, and then declared otherwise by somebody else."""

from __future__ import annotations

import psutil
from kombu import Connection, Queue

from tests.brokers import Space
from tests.publishing import publish
from tests.waiting import wait_for
from tests.workers import StartWorker

FAIR = {"fair_queues": {"other": {}, "taken": {}}}
LIMITED = {"x-max-length": 50}


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
