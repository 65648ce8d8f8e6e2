"""Channels of RabbitMQ: one a queue while it is consumed, given back afterwards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from celery import Celery
from kombu import Connection

from tests.brokers import RabbitMQ, Space
from tests.faults.proxy import Proxy
from tests.integration.depths import left, unsettled
from tests.integration.gate import Gate
from tests.publishing import publish
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker

QUEUES = ["a", "b"]
CLOSED = "has closed the channel"
LATE = {"task_acks_late": True}


def channels(place: Space) -> int:
    theirs = f'[x || [{{vhost, <<"{place.place}">>}}] <- rabbit_channel:info_all([vhost])]'
    return int(place.server.control("eval", f"length({theirs})."))


@pytest.mark.parametrize("fetch", ["push", pytest.param("pull", marks=pytest.mark.wide)])
def test_a_channel_ends_with_the_last_message_of_its_queue(
    rabbitmq_space: Space, start_worker: StartWorker, gate: Gate, fetch: str
) -> None:
    """What runs when its queue is cancelled is acknowledged all the same, if it is so late."""
    place = rabbitmq_space
    conf = LATE | {"fair_queues": {"a": {"fetch": fetch}}}
    worker = start_worker(place, pool="threads", concurrency=2, queues=QUEUES, conf=conf)
    worker.control("ping")
    idle = channels(place) - 1  # those of our own commands among them
    worker.cancel_consumer("a")
    wait_equal(lambda: channels(place), idle)

    for _ in range(3):
        worker.control("add_consumer", queue="a")
        worker.records.started.wait_once(publish(place.url, {"a": 5}).all())
        wait_equal(lambda: channels(place), idle + 1)  # the publisher's ends in its time
        worker.cancel_consumer("a")
        wait_equal(lambda: channels(place), idle)

    worker.control("add_consumer", queue="a")
    held = gate.hold(worker, "a")
    worker.cancel_consumer("a")
    assert unsettled(place, "a") == 1
    wait_equal(lambda: channels(place), idle + 1)
    gate.open()
    worker.records.finished.wait_once(held)
    wait_equal(lambda: channels(place), idle)
    assert left(place, "a") == 0
    assert worker.stop() == 0


MANY = [f"q{number:02}" for number in range(40)]


@pytest.fixture(scope="module")
def narrow(hurt_rabbitmq: RabbitMQ) -> Iterator[RabbitMQ]:
    """A broker that allows fewer channels than the workers here have queues."""
    with hurt_rabbitmq.setting(channel_max=16):
        yield hurt_rabbitmq


@pytest.mark.parametrize("fetch", ["push", pytest.param("pull", marks=pytest.mark.wide)])
def test_more_queues_than_channels(narrow: RabbitMQ, start_worker: StartWorker, fetch: str) -> None:
    """All are consumed, those too that are cancelled and added meanwhile."""
    place = narrow.space()
    ids = publish(place.url, dict.fromkeys(MANY, 20))
    conf = {"fair_queues": {name: {"fetch": fetch} for name in MANY}}
    worker = start_worker(place, pool="threads", concurrency=2, queues=MANY, conf=conf)
    worker.records.started.wait_once(ids.all())

    for name in (MANY[0], MANY[-1], MANY[-2]):
        worker.cancel_consumer(name)
        assert "ok" in worker.control("add_consumer", queue=name)
    worker.records.started.wait_once(publish(place.url, dict.fromkeys(MANY, 2)).all())
    wait_equal(lambda: left(place, *MANY), 0)
    assert "Traceback" not in worker.log()
    assert worker.stop() == 0


def test_hardly_any_channels(hurt_rabbitmq: RabbitMQ, start_worker: StartWorker) -> None:
    """Celery's own needs are left some, on each connection: this worker gossips, as by default."""
    with hurt_rabbitmq.setting(channel_max=5):
        place, queues = hurt_rabbitmq.space(), MANY[:15]
        others = Celery(broker=place.url, set_as_current=False)
        with Proxy(place) as proxy:
            worker = start_worker(proxy.url, pool="threads", queues=queues, quiet=False, wait=False)
            worker.records.started.wait_once(publish(place.url, dict.fromkeys(queues, 5)).all())
            for _ in range(2):
                for name in queues[::5]:
                    for command in ("cancel_consumer", "add_consumer"):
                        tell(others, command, name)
                proxy.cut()
                worker.records.started.wait_ids(publish(place.url, dict.fromkeys(queues, 5)).all())
            assert "No free channel" not in worker.log()
            assert worker.stop() == 0


def tell(app: Celery, command: str, queue: str) -> None:
    """Tell the only worker, until it answers; it may be about to connect."""
    options = {"arguments": {"queue": queue}, "reply": True, "timeout": 1}
    wait_for(lambda: app.control.broadcast(command, **options), 60, command)


def test_a_window_on_a_shared_channel_is_its_queues_own(
    narrow: RabbitMQ, start_worker: StartWorker, gate: Gate
) -> None:
    place = narrow.space()
    conf = {"fair_queues": {name: {"prefetch": 1 + n % 4} for n, name in enumerate(MANY)}}
    worker = start_worker(place, pool="threads", concurrency=1, queues=MANY, conf=conf)
    gate.hold(worker, MANY[0])
    ids = publish(place.url, dict.fromkeys(MANY[1:], 9)).all()

    def held() -> list[int]:
        depths = place.depths()
        return [depths[name].unacked for name in MANY[1:]]

    wait_equal(held, [1 + n % 4 for n in range(1, 40)])
    gate.open()
    worker.records.started.wait_once(ids)
    assert worker.stop() == 0


def test_a_queue_that_is_deleted_ends_no_other_on_its_channel(
    narrow: RabbitMQ, start_worker: StartWorker
) -> None:
    place = narrow.space()
    worker = start_worker(place, pool="threads", queues=MANY)
    with worker.client.connection_for_write() as connection:
        for name in MANY[::5]:
            connection.default_channel.queue_delete(name)
    wait_for(lambda: set(MANY) <= place.depths().keys(), 30, worker.log)
    worker.records.started.wait_once(publish(place.url, dict.fromkeys(MANY, 2)).all())
    assert worker.stop() == 0


def test_one_that_is_refused_gets_a_channel_of_its_own(
    narrow: RabbitMQ, start_worker: StartWorker
) -> None:
    """The others on its channel are consumed again, and notice nothing of later attempts."""
    place = narrow.space()
    with Connection(place.url) as connection:
        mine = connection.channel()
        mine.queue_declare(MANY[-1], durable=True, auto_delete=False)
        mine.basic_consume(MANY[-1], exclusive=True)
        worker = start_worker(place, pool="threads", queues=MANY)
        ids = publish(place.url, dict.fromkeys(MANY[:-1], 5)).all()
        worker.records.started.wait_ids(ids)
        closed = worker.log().count(CLOSED)
        assert closed > 0
    ids = publish(place.url, {MANY[-1]: 5}).all()
    worker.records.started.wait_ids(ids)
    assert worker.log().count(CLOSED) == closed
    assert worker.stop() == 0
