"""Keys of a partition run beside each other; each key's messages one after another."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from celery import Celery
from celery.exceptions import ImproperlyConfigured
from kombu import Connection

from celery_fair.headers import KEY
from celery_fair.settings import Settings
from celery_fair.worker.queues.pulled import first_of_a_key
from tests.brokers import Space
from tests.groups.fleet import QUEUE, Fleet, check_one_by_one
from tests.integration.gate import closing_gate
from tests.waiting import wait_for
from tests.worker.parts import shelf
from tests.workers import StartWorker


@pytest.mark.either_broker
def test_key_at_work_holds_up_itself(
    space: Space, start_worker: StartWorker, tmp_path: Path
) -> None:
    fleet = Fleet(space, start_worker, tmp_path, f"sqlite:///{tmp_path}/g.db", 1)
    fleet.conf["fair_partitions"][QUEUE]["serial"] = "key"
    worker = fleet.worker()
    with closing_gate() as gate:
        fleet.publish(["a"], 1, gate=str(gate.path))
        fleet.publish(["a", "b", "c"], 5)
        fleet.publish(["b"], 1, "keyed_again")
        wait_for(lambda: len(fleet.of("ended")) == 12, 30, lambda: str(fleet.events))
        assert [event["number"] for event in fleet.of("began") if event["key"] == "a"] == [0]
    wait_for(lambda: len(fleet.of("ended")) == 18, 30, lambda: str(fleet.events))
    check_one_by_one(fleet, {"a": [0, *range(5)], "b": [*range(5), 0, 0], "c": [*range(5)]})

    with closing_gate() as gate:
        fleet.publish(["a"], 1, gate=str(gate.path))
        fleet.publish(["a"], 5)
        fleet.publish(["b"], 1)
        wait_for(lambda: len(fleet.of("ended")) == 19, 30, lambda: str(fleet.events))
        fleet.publish(["a"], 1)
        worker.sigterm()  # it gives back those that wait for the one at work
        fleet.worker()
    wait_for(lambda: len(fleet.of("ended")) == 26, 30, lambda: str(fleet.events))
    check_one_by_one(fleet, {"a": [0, *range(5), 0, *range(5), 0]})


def test_keys_of_a_publisher_that_has_nothing_of_ours(
    rabbitmq_space: Space, start_worker: StartWorker, tmp_path: Path
) -> None:
    """Its routing key is the key: so it stays with a retry, and with what a worker gives back."""
    url = f"sqlite:///{tmp_path}/g.db"
    fleet = Fleet(rabbitmq_space, start_worker, tmp_path, url, 1, via="exchange")
    fleet.conf["fair_partitions"][QUEUE]["serial"] = "key"
    worker = fleet.worker()
    with closing_gate() as gate:  # all is there before the retry comes back
        publish_elsewhere(rabbitmq_space, "a", "keyed_once", [7], gate=str(gate.path))
        publish_elsewhere(rabbitmq_space, "a", "keyed_again", [0])
        publish_elsewhere(rabbitmq_space, "a", "keyed", [1, 2, 3])
    wait_for(lambda: len(fleet.of("ended")) == 6, 30, lambda: str(fleet.events))
    check_one_by_one(fleet, {"a": [7, 0, 1, 2, 3, 0]})

    with closing_gate() as gate:
        publish_elsewhere(rabbitmq_space, "a", "keyed_once", [4], gate=str(gate.path))
        publish_elsewhere(rabbitmq_space, "a", "keyed_once", [5, 6])
        publish_elsewhere(rabbitmq_space, "b", "keyed_once", [0])
        wait_for(lambda: len(fleet.of("ended")) == 7, 30, lambda: str(fleet.events))
        worker.sigterm()
        fleet.worker()
    wait_for(lambda: len(fleet.of("ended")) == 10, 30, lambda: str(fleet.events))
    check_one_by_one(fleet, {"a": [7, 0, 1, 2, 3, 0, 4, 5, 6], "b": [0]})


def publish_elsewhere(
    space: Space, key: str, task: str, numbers: Sequence[int], **kwargs: Any
) -> None:
    """To the exchange that finds partitions, as a program in another language does."""
    app = Celery("template", set_as_current=False)
    with Connection(space.url) as connection, connection.Producer() as producer:
        for number in numbers:
            made = app.amqp.as_task_v2(str(uuid4()), task, (number, key, number), kwargs)
            to = {"exchange": f"{QUEUE}.partitions.1", "routing_key": key}
            sent = {"headers": made.headers, "serializer": "json", **made.properties}
            producer.publish(made.body, **to, **sent)


def test_oldest_of_a_key_is_first() -> None:
    """It alone may start, of those of its key; nothing may whose key is at work."""
    keys = [*"aabcb"]
    waiting = shelf().put(*"abcde")
    for message, key in zip(waiting, keys, strict=True):
        message.headers[KEY] = key
    at_work: list[str] = []
    first = partial(first_of_a_key, waiting, at_work.__contains__)
    assert first() is waiting[0]
    at_work.append("a")
    assert first() is waiting[2]
    at_work.append("b")
    assert first() is waiting[3]
    at_work.append("c")
    assert first() is None


@pytest.mark.parametrize(
    ("partitioned", "options", "said"),
    [
        ({"serial": "queue"}, {}, r"\['serial'\] must be one of 'partition', 'key', not 'queue'"),
        ({"serial": "key"}, {"fetch": "push"}, "'fetch' must be 'pull', not 'push'"),
        ({}, {"max_in_flight": 2}, "'max_in_flight' = 2, but a partition runs one task at a time"),
    ],
)
def test_settings_are_refused(
    partitioned: dict[str, Any], options: dict[str, Any], said: str
) -> None:
    app = Celery(set_as_current=False)
    app.conf.fair_partitions = {QUEUE: {"partitions": 2, **partitioned}}
    app.conf.fair_queues = {QUEUE: options}
    with pytest.raises(ImproperlyConfigured, match=said):
        Settings.of(app)


def test_cap_of_a_partition() -> None:
    app = Celery(set_as_current=False)
    app.conf.fair_partitions = {QUEUE: {"partitions": 1, "serial": "key"}}
    app.conf.fair_queues = {QUEUE: {"max_in_flight": 3}}
    assert Settings.of(app).queue(f"{QUEUE}.0").max_in_flight == 3
