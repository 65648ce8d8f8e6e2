"""kombu's emulated brokers mark what was delivered before, each in a place of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from kombu import Connection
from kombu.transport.virtual import Message

from celery_fair.brokers.payload import is_redelivered
from celery_fair.dead_letters.death import dead_letter_queue
from tests.waiting import wait_for
from tests.workers import StartWorker

REQUEUES = """
from celery.exceptions import Reject

from celery_fair import NonRepeatableTask
from tests.apps.shares import app, start


@app.task(base=NonRepeatableTask, bind=True, name="requeues", ack="after")
def requeues(self, seq):
    start(self, seq)
    raise Reject("come back", requeue=True)
"""


def place(kind: str, folder: Path) -> tuple[str, dict[str, Any]]:
    """A broker's URL, and the options of its transport."""
    if kind == "sqlalchemy":
        return f"sqla+sqlite:///{folder}/broker.db", {}
    messages = folder / "messages"
    messages.mkdir()
    return "filesystem://", {
        "polling_interval": 0.1,
        "data_folder_in": str(messages),
        "data_folder_out": str(messages),
        "control_folder": str(folder / "control"),
    }


@pytest.mark.parametrize("kind", ["filesystem", "sqlalchemy"])
@pytest.mark.filterwarnings("ignore:The ``noload`` loader:DeprecationWarning")  # kombu's
def test_requeued(start_worker: StartWorker, tmp_path: Path, kind: str) -> None:
    url, options = place(kind, tmp_path)
    conf = {"broker_transport_options": options, "fair_allow_untested_transport": True}
    with Celery("shop", broker=url, set_as_current=False) as app:
        app.conf.update(conf)
        # Before a worker looks: kombu's would read a file that is being written.
        sent = app.send_task("requeues", (0,), queue="a")
    worker = start_worker(url, app=REQUEUES, queues=["a"], conf=conf)

    started = worker.records.started.read
    wait_for(lambda: "Dead-lettered" in worker.log() or len(started()) > 1, 30, worker.log)
    with Connection(url, transport_options=options) as connection, connection.channel() as channel:
        queue = dead_letter_queue("dead-letters")(channel)
        queue.declare()
        letters: list[Any] = []

        def letter() -> bool:
            if (message := queue.get()) is not None:
                message.ack()
                letters.append(message)
            return bool(letters) or len(started()) > 1

        wait_for(letter, 30, worker.log)
    worker.records.started.wait_once([sent.id])
    assert [message.headers["x-fair-reason"] for message in letters] == ["redelivered"]


@pytest.mark.parametrize(
    ("attributes", "again"),
    [
        ({"ApproximateReceiveCount": "1"}, False),
        ({"ApproximateReceiveCount": "2"}, True),
        ({}, False),
    ],
)
def test_how_often_sqs_has_delivered(attributes: dict[str, str], again: bool) -> None:
    info = {"exchange": "", "routing_key": "a", "sqs_message": {"Attributes": attributes}}
    payload = {"properties": {"delivery_tag": "1", "delivery_info": info}}
    assert is_redelivered(Message(payload)) is again
