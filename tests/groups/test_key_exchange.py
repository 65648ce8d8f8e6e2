"""Partitions found by RabbitMQ's consistent hash of keys."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import pytest
from amqp import PreconditionFailed
from amqp.exceptions import InvalidCommand
from celery import Celery
from celery.exceptions import ImproperlyConfigured
from kombu import Connection, pools

from celery_fair import install
from celery_fair.routing.key_exchange import key_exchanges
from celery_fair.settings import Settings
from tests.brokers import RabbitMQ, Space
from tests.brokers.rabbitmq import PLUGINS
from tests.groups.fleet import QUEUE, Fleet
from tests.waiting import wait_equal
from tests.workers import StartWorker

KEYS = [*range(100), "Ökonom", b"\xff\x00", "x" * 300, "\ud800"]
PARTITIONS = [f"customers.{number}" for number in range(4)]
PLUGIN = "rabbitmq-plugins enable rabbitmq_consistent_hash"
MISSING = "fair_partitions['customers']['via'] = 'exchange': the broker cannot declare the exchange"


@pytest.fixture(autouse=True)
def _fresh_connections() -> Iterator[None]:
    """What a connection has declared is not declared again; another test's is not ours."""
    yield
    pools.reset()


def publisher(url: str, partitions: int = 12, **conf: Any) -> Celery:
    app = Celery("keys", broker=url, set_as_current=False)
    app.conf.fair_partitions = {QUEUE: {"partitions": partitions, "via": "exchange"}}
    app.conf.task_ignore_result = True
    app.conf.broker_transport_options = {"confirm_publish": True}
    app.conf.update(conf)
    return install(app)


def publish(app: Celery, keys: Iterable[Any] = KEYS, producer: Any = None) -> None:
    for key in keys:
        app.send_task("update", (ascii(key),), queue=QUEUE, partition_key=key, producer=producer)


def publish_at_once(app: Celery, publishers: int = 4) -> None:
    """By several that all find no exchange."""
    ready = Barrier(publishers)

    def run() -> None:
        with app.connection_for_write() as connection, app.amqp.Producer(connection) as producer:
            ready.wait(30)
            publish(app, producer=producer)

    with ThreadPoolExecutor(publishers) as pool:
        for done in [pool.submit(run) for _ in range(publishers)]:
            done.result()


def found(app: Celery) -> dict[str, set[str]]:
    """By key, the partitions in which its messages were; they are taken out."""
    where = defaultdict(set)
    with app.connection_for_read() as connection:
        for name in Settings.of(app).partitioned[QUEUE].queues:
            queue = app.amqp.queues[name](connection.default_channel)
            while (message := queue.get(no_ack=True)) is not None:
                where[message.payload[0][0]].add(name)
    return where


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_key_decides(rabbitmq_space: Space, queue_type: str) -> None:
    """Whoever publishes, and with all partitions, though nobody consumes them yet."""
    app = publisher(rabbitmq_space.url, task_create_missing_queue_type=queue_type)
    publish_at_once(app)
    with app.connection_for_write() as connection, connection.Producer() as producer:
        for key in range(100):  # as a program does that has nothing of ours
            body, to = [[ascii(key)], {}, {}], "customers.partitions.12"
            producer.publish(body, exchange=to, routing_key=str(key), serializer="json")
    where = found(app)
    assert where.keys() == {ascii(key) for key in KEYS}
    assert [key for key, queues in where.items() if len(queues) > 1] == []
    assert set().union(*where.values()) == set(Settings.of(app).partitioned[QUEUE].queues)


@pytest.mark.wide
def test_same_after_restart(own_rabbitmq: RabbitMQ) -> None:
    app = publisher(own_rabbitmq.space().url)
    publish(app)
    before = found(app)
    own_rabbitmq.restart()
    publish(app)
    assert found(app) == before


@pytest.mark.wide
def test_broker_without_the_plugin(
    own_rabbitmq: RabbitMQ, start_worker: StartWorker, tmp_path: Path
) -> None:
    """Publisher and worker say what is missing."""
    space = own_rabbitmq.space()
    enabled = own_rabbitmq.folder / "plugins"
    reread = f'rabbit_plugins:ensure("{enabled}").'
    enabled.write_text("[].")
    own_rabbitmq.control("eval", reread)
    try:
        app = publisher(space.url)
        for _ in range(2):
            with pytest.raises(ImproperlyConfigured) as refused:
                publish(app)
            assert MISSING in str(refused.value)
            assert PLUGIN in str(refused.value)
        fleet = Fleet(space, start_worker, tmp_path, "redis://127.0.0.1:1/0", via="exchange")
        worker = fleet.worker(wait=False)
        assert worker.wait() != 0
        assert MISSING in worker.log()
    finally:
        enabled.write_text(PLUGINS)
        own_rabbitmq.control("eval", reread)
    publish(app)
    assert len(found(app)) == len(KEYS)


OTHER = "inequivalent arg 'type' for exchange 'customers.partitions.12' in vhost '/'"


@pytest.mark.parametrize(
    ("answer", "advice"),
    [
        (InvalidCommand("COMMAND_INVALID - unknown exchange type 'x-consistent-hash'"), PLUGIN),
        (PreconditionFailed("PRECONDITION_FAILED - unknown exchange type 'x-c…'"), PLUGIN),
        (PreconditionFailed("PRECONDITION_FAILED - invalid exchange type 'x-c…'"), PLUGIN),
        (PreconditionFailed(f"PRECONDITION_FAILED - {OTHER}"), "Delete it"),
    ],
    ids=["RabbitMQ 3", "RabbitMQ 4", "RabbitMQ 4, plugin off", "another exchange"],
)
def test_advice_by_the_answer(answer: Exception, advice: str) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise answer

    app = publisher("memory://")
    exchange = key_exchanges(app.amqp, Settings.of(app).partitioned)[QUEUE]
    channel = SimpleNamespace(exchange_declare=refuse)
    with pytest.raises(ImproperlyConfigured) as refused:
        exchange.declare(channel=channel)
    assert advice in str(refused.value)


def test_another_exchange_of_the_name(rabbitmq_space: Space) -> None:
    with Connection(rabbitmq_space.url) as connection, connection.channel() as channel:
        channel.exchange_declare("customers.partitions.12", "direct", durable=True)
    with pytest.raises(ImproperlyConfigured, match=r"another exchange 'customers\.partitions\.12'"):
        publish(publisher(rabbitmq_space.url))


def test_broker_without_such_exchanges(redis_space: Space) -> None:
    app = publisher(redis_space.url)
    said = r"\['via'\] = 'exchange': this broker \(redis\) has no exchanges .* Set 'hash'"
    with pytest.raises(ImproperlyConfigured, match=said):
        publish(app)
    assert redis_space.ready() == {}


def test_order_and_retries(
    rabbitmq_space: Space, start_worker: StartWorker, tmp_path: Path
) -> None:
    """A key's messages begin in order; the second run of each is where the first was."""
    store = f"sqlite:///{tmp_path}/g.db"
    fleet = Fleet(rabbitmq_space, start_worker, tmp_path, store, 4, via="exchange")
    worker = fleet.worker()
    with Connection(rabbitmq_space.url) as connection, connection.channel() as channel:
        channel.exchange_declare("customers.partitions.4", "x-consistent-hash", passive=True)
    fleet.wait_counts([4], worker)
    keys = [f"customer{number}" for number in range(40)]
    published = fleet.publish(keys, 3, "keyed_again")
    fleet.records.finished.wait(2 * published)
    first, partitions = defaultdict(list), defaultdict(list)
    for event in (event for event in fleet.events if event["kind"] == "began"):
        partitions[event["key"]].append(event["partition"])
        if not event["retries"]:
            first[event["key"]].append(event["number"])
    assert dict(first) == {key: [0, 1, 2] for key in keys}
    assert {len(each) for each in partitions.values()} == {6}
    assert [key for key, names in partitions.items() if len(set(names)) > 1] == []
    assert {names[0] for names in partitions.values()} == set(PARTITIONS)

    delete(rabbitmq_space, "customers.2")
    wait_equal(lambda: bound(rabbitmq_space), PARTITIONS)
    fleet.publish(keys, 1)
    again = fleet.records.finished.wait(2 * published + len(keys))[2 * published :]
    assert {record.queue for record in again} == set(PARTITIONS)


def delete(space: Space, queue: str) -> None:
    with Connection(space.url) as connection, connection.channel() as channel:
        channel.queue_delete(queue)


def bound(space: Space) -> list[str]:
    """The queues that the exchange has."""
    exchange = f'{{resource, <<"{space.place}">>, exchange, <<"customers.partitions.4">>}}'
    assert isinstance(space.server, RabbitMQ)
    found = space.server.control("eval", f"rabbit_binding:list_for_source({exchange}).")
    return sorted(name for name in PARTITIONS if f'<<"{name}">>' in found)
