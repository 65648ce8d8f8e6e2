"""Workers on RabbitMQ, each with tags of its own, that tell each other what they serve."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from threading import Thread
from typing import Any

import pytest
from kombu import Connection
from redis.exceptions import TimeoutError as RedisTimeout

from celery_fair.brokers.keyed.store import KeyStore, Reports
from tests.brokers import Space
from tests.faults.proxy import Proxy
from tests.keys.tenants import KEYED, QUEUE, Tenants
from tests.waiting import wait_for
from tests.workers import StartWorker, WorkerProcess

A, B, ODD = "a", "b", "c%2Fé /\0"


@pytest.fixture
def tenants(rabbitmq_space: Space) -> Tenants:
    return Tenants(rabbitmq_space.url, installed=True)


@pytest.fixture
def store(redis_space: Space) -> Iterator[KeyStore]:
    with closing(KeyStore(redis_space.url)) as store:
        yield store


def heard_by(
    reports: Reports, keys: int, served: dict[str, float] | None = None, cost: float = -1.0
) -> dict[str, float]:
    """Tell it; return what others have, as soon as there is so much, and of so many keys."""
    heard = Counter(reports.exchange(served or {}))

    def enough() -> bool:
        heard.update(reports.exchange({}))
        return len(heard) >= keys and heard.total() >= cost

    wait_for(enough, 30)
    return dict(heard)


def test_what_is_told_is_heard_once_and_not_ones_own(store: KeyStore) -> None:
    one, other, third = (store.reports(QUEUE) for _ in range(3))
    for reports in (one, other):
        assert reports.exchange({}) == {}
    one.exchange({A: 1.0, ODD: 0.25})
    one.exchange({A: 2.0})
    assert heard_by(other, 2, {A: 10.0, B: 0.5}, 3.25) == {A: 3.0, ODD: 0.25}
    assert heard_by(one, 2) == {A: 10.0, B: 0.5}
    for reports in (one, other, third):  # the last is new, and its tags are as good as theirs
        assert reports.exchange({}) == {}


def test_what_turned_out_to_be_less(store: KeyStore) -> None:
    one, other = store.reports(QUEUE), store.reports(QUEUE)
    other.exchange({})
    one.exchange({A: -0.5})
    assert heard_by(other, 1) == {A: -0.5}


def test_what_may_have_been_told_is_not_heard(store: KeyStore) -> None:
    """Whether the server has taken it in nobody knows, if there was no answer."""
    one, other = store.reports(QUEUE), store.reports(QUEUE)
    for reports in (one, other):
        reports.exchange({})
    report = one._report

    def lost(*question: Any) -> None:
        report(*question)
        raise ConnectionError("no answer")

    one._report = lost  # type: ignore[assignment]
    with pytest.raises(ConnectionError):
        one.exchange({A: 5.0})
    one._report = report
    assert heard_by(other, 1) == {A: 5.0}
    assert heard_by(one, 1, other.exchange({B: 2.0})) == {B: 2.0}


def test_the_more_tell_the_seldomer(store: KeyStore, redis_space: Space) -> None:
    one, other = store.reports(QUEUE), store.reports(QUEUE)
    one.exchange({})
    assert one.every == pytest.approx(0.1)
    with Connection(redis_space.url) as connection:  # sixty have told something
        told = connection.default_channel.client.hincrby("celery-fair:keys:jobs:served", "told", 60)
    assert told == 61

    def seldomer() -> bool:
        one.exchange({})
        other.exchange({})
        return other.every >= 0.3

    wait_for(seldomer, 30)


def test_a_server_that_has_forgotten_everything(store: KeyStore, redis_space: Space) -> None:
    one, other = store.reports(QUEUE), store.reports(QUEUE)
    for _ in range(3):
        one.exchange({})
        heard_by(one, 1, other.exchange({B: 1.0}))
    with Connection(redis_space.url) as connection:
        connection.default_channel.client.delete("celery-fair:keys:jobs:served")
    one.exchange({})
    other.exchange({A: 1.0})
    assert heard_by(one, 1)[A] == 1.0


def both_found(tenants: Tenants, worker: WorkerProcess) -> int:
    """Wait until RabbitMQ has found both lanes; return how many have started then."""

    def found() -> int:
        counts = Counter(order := tenants.started(worker.records.started))
        return len(order) if min(counts[A], counts[B]) >= 20 else 0

    return int(wait_for(found, 60, worker.log))


def test_what_was_served_elsewhere_counts_here(
    store: KeyStore,
    redis_space: Space,
    tenants: Tenants,
    rabbitmq_space: Space,
    start_worker: StartWorker,
) -> None:
    """The test is the other worker, and has served 60 of one."""
    ids = tenants.publish({"a": 400, "b": 400}, "nap", (0.005,))
    conf = KEYED | {"fair_key_store": redis_space.url}
    worker = start_worker(rabbitmq_space, pool="threads", concurrency=1, queues=[QUEUE], conf=conf)
    found = both_found(tenants, worker)
    store.reports(QUEUE).exchange({A: 60.0})
    worker.records.started.wait_once(ids)
    counts = Counter(tenants.started(worker.records.started)[found : found + 500])
    assert counts["b"] - counts["a"] == pytest.approx(60, abs=8)


def test_a_store_that_is_away(
    store: KeyStore,
    redis_space: Space,
    tenants: Tenants,
    rabbitmq_space: Space,
    start_worker: StartWorker,
) -> None:
    """Shares are each worker's until it is back."""
    ids = tenants.publish({"a": 350, "b": 350}, "nap", (0.02,))
    with Proxy(redis_space) as proxy:
        conf = KEYED | {"fair_key_store": proxy.url}
        proxy.refuse()
        worker = start_worker(
            rabbitmq_space, pool="threads", concurrency=1, queues=[QUEUE], conf=conf
        )
        found = both_found(tenants, worker)
        worker.records.started.wait(found + 80)
        own = tenants.started(worker.records.started)[found : found + 80]
        assert own.count("a") == pytest.approx(40, abs=3)
        proxy.release()
        other = store.reports(QUEUE)
        assert min(heard_by(other, 2).values()) > 0
        other.exchange({A: 60.0})
        worker.records.started.wait_once(ids)
    counts = Counter(tenants.started(worker.records.started)[found:600])
    assert counts["b"] - counts["a"] == pytest.approx(60, abs=8)


def test_who_disconnects_takes_nobodys_answer_away(redis_space: Space) -> None:
    """As the thread that renews places does, after trouble with one of its own connections."""
    with Proxy(redis_space) as proxy:
        store = KeyStore(proxy.url)
        one, other = store.reports(QUEUE), store.reports("other")
        one.exchange({})
        asked = proxy.on("EVALSHA", action="mute")
        failed: list[Exception] = []

        def ask() -> None:
            try:
                one.exchange({A: 1.0})
            except Exception as exc:  # noqa: BLE001 - looked at below
                failed.append(exc)

        asking = Thread(target=ask, daemon=True)
        asking.start()
        asked.wait()
        store.close()
        asking.join(60)
        assert [type(exc) for exc in failed] == [RedisTimeout]
        proxy.release()
        other.exchange({})


@pytest.mark.wide
def test_shares_of_floods(
    redis_space: Space, tenants: Tenants, rabbitmq_space: Space, start_worker: StartWorker
) -> None:
    weights = {f"key{number}": 1 + number % 5 for number in range(20)}
    together = sum(weights.values())
    tenants.publish({key: 130 * weight for key, weight in weights.items()}, "nap", (0.02,))
    keys = {key: {"weight": weight} for key, weight in weights.items()}
    conf = {"fair_keys": {QUEUE: {"keys": keys}}, "fair_key_store": redis_space.url}
    workers = [
        start_worker(rabbitmq_space, pool="threads", concurrency=1, queues=[QUEUE], conf=conf)
        for _ in range(4)
    ]
    records = workers[0].records.started
    records.wait(100 * together)
    counts = Counter(tenants.started(records)[: 100 * together])
    for key, weight in weights.items():
        assert counts[key] == pytest.approx(100 * weight, rel=0.025)
