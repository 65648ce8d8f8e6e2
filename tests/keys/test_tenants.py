"""A queue that its tenants share, none of which anybody has written down beforehand."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.brokers import Space
from tests.integration.gate import Gate, closing_gate
from tests.keys.tenants import KEYED, QUEUE, Tenants, at, left
from tests.publishing import publish
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker

ALL = ("solo", "threads", "prefork")


on_redis = pytest.mark.parametrize("space", ["redis"], indirect=True)


@pytest.fixture(params=["redis", "rabbitmq"])
def space(request: pytest.FixtureRequest) -> Space:
    space: Space = request.getfixturevalue(f"{request.param}_space")
    return space


@pytest.fixture
def tenants(space: Space) -> Tenants:
    """On RabbitMQ, only who publishes can keep a flood out of the way."""
    return Tenants(space.url, installed=space.url.startswith("amqp"))


@pytest.mark.either_broker("redis")
@pytest.mark.parametrize("pool", ALL)
def test_a_quiet_tenant_is_next_behind_any_backlog(
    space: Space, start_worker: StartWorker, tenants: Tenants, pool: str
) -> None:
    """With each question some of what is in front is sorted, before one is chosen.

    On Redis 200 messages of it, on RabbitMQ one at least.
    """
    slots = 1 if pool == "solo" else 2
    worker = start_worker(space, pool=pool, concurrency=slots, queues=[QUEUE], conf=KEYED)
    with closing_gate() as gate:
        tenants.publish({"flood": slots}, "hold", [str(gate.path)])
        worker.records.started.wait(slots)
        ids = tenants.publish({"flood": 500, "other": 490, "quiet": 1})
        wait_equal(lambda: left(space), 991)
        front = space.depths()[QUEUE]
        in_front = front.ready + front.unacked  # one may just be moved
    worker.records.started.wait_once(ids)
    order = tenants.started(worker.records.started)[slots:]
    questions = in_front // (200 if space.url.startswith("redis") else 1)
    assert order.index("quiet") <= questions + slots + 1  # "other" is as new
    wait_equal(lambda: left(space), 0)


@pytest.mark.parametrize("pool", ALL)
def test_shares_are_by_weight(
    space: Space, start_worker: StartWorker, tenants: Tenants, pool: str
) -> None:
    weights = {"one": 1, "three": 3, "six": 6}
    keys = {name: {"weight": weight} for name, weight in weights.items() if weight > 1}
    conf = {"fair_keys": {QUEUE: {"keys": keys}}}
    ids = tenants.publish({"one": 200, "three": 300, "six": 600})
    worker = start_worker(space, pool=pool, concurrency=2, queues=[QUEUE], conf=conf)
    worker.records.started.wait_once(ids)
    order = tenants.started(worker.records.started)
    found = max(at(order, name, 20) for name in weights)
    counts = Counter(order[found : found + 600])
    assert set(order[found + 600 :]) == weights.keys()  # till then none had nothing left
    for name, weight in weights.items():
        assert counts[name] == pytest.approx(60 * weight, abs=12)


@pytest.mark.wide
def test_the_nights_work_of_many_tenants(
    space: Space, start_worker: StartWorker, tenants: Tenants
) -> None:
    """One tenant after the other has published, and on Redis all workers share a virtual time."""
    names = [f"tenant{number}" for number in range(100)]
    ids = tenants.publish(dict.fromkeys(names, 10), "nap", (0.005,))
    workers = [
        start_worker(space, pool="threads", concurrency=2, queues=[QUEUE], conf=KEYED)
        for _ in range(1 if space.url.startswith("amqp") else 3)
    ]
    records = workers[0].records.started
    records.wait_once(ids)
    half = Counter(tenants.started(records)[:500])
    assert {name: half[name] for name in names} == dict.fromkeys(names, pytest.approx(5, abs=1.5))


def test_parts_share_their_tenants_share(
    space: Space, start_worker: StartWorker, tenants: Tenants
) -> None:
    names = {f"acme/user-{number}": 40 for number in range(10)} | {"globex": 400}
    ids = tenants.publish(names)
    worker = start_worker(space, queues=[QUEUE], conf=KEYED)
    worker.records.started.wait_once(ids)
    order = [name[:4] for name in tenants.started(worker.records.started)]
    found = max(at(order, "acme", 30), at(order, "glob", 20))  # of each part two are in no lane
    assert order[found : found + 400].count("acme") == pytest.approx(200, abs=8)


def test_seconds_are_shared_where_they_are_the_cost(
    space: Space, start_worker: StartWorker, tenants: Tenants
) -> None:
    conf = KEYED | {"fair_cost": "runtime"}
    ids = tenants.publish({"long": 150}, "nap", (0.03,))
    ids += tenants.publish({"short": 900}, "nap", (0.005,))
    worker = start_worker(space, pool="threads", concurrency=2, queues=[QUEUE], conf=conf)
    worker.records.finished.wait_once(ids)
    ends = {record.id: record.monotonic_ns for record in worker.records.finished.read()}
    starts = sorted(worker.records.started.read())
    order = [tenants.of[record.id] for record in starts]
    found = max(at(order, "long", 20), at(order, "short", 20))
    last = {name: number for number, name in enumerate(order)}
    spent = Counter[str]()
    for record in starts[found : min(last.values())]:  # until one of them has nothing left
        spent[tenants.of[record.id]] += ends[record.id] - record.monotonic_ns
    assert spent["short"] == pytest.approx(spent["long"], rel=0.15)


@pytest.mark.either_broker
def test_messages_without_a_key_are_one_tenants(
    space: Space, start_worker: StartWorker, tenants: Tenants
) -> None:
    ids = publish(space.url, {QUEUE: 300}).all() + tenants.publish({"acme": 300})
    worker = start_worker(space, queues=[QUEUE], conf=KEYED)
    records = worker.records.started
    records.wait_once(ids)
    has_key = [record.id in tenants.of for record in sorted(records.read())]
    found = at(has_key, True, 20)
    assert sum(has_key[found : found + 200]) == pytest.approx(100, abs=7)


@pytest.mark.either_broker
def test_a_keyed_queue_has_its_share_beside_others(
    space: Space, start_worker: StartWorker, tenants: Tenants
) -> None:
    conf = KEYED | {"fair_queues": {QUEUE: {"quantum": 1}, "mail": {"quantum": 3}}}
    ids = tenants.publish({"a": 200, "b": 200}) + publish(space.url, {"mail": 1200}).all()
    worker = start_worker(space, conf=conf)
    worker.records.started.wait_once(ids)
    starts = [record.queue for record in sorted(worker.records.started.read())]
    found = at(starts, QUEUE, 20)
    assert Counter(starts[found : found + 800])["mail"] == pytest.approx(600, abs=20)


def test_a_busy_worker_holds_nothing_and_a_stop_gives_back(
    space: Space, start_worker: StartWorker, tenants: Tenants
) -> None:
    workers = [
        start_worker(space, pool="threads", concurrency=2, queues=[QUEUE], conf=KEYED)
        for _ in range(2)
    ]
    with closing_gate() as gate:
        tenants.publish({"flood": 4}, "hold", [str(gate.path)])
        workers[0].records.started.wait(4)
        ids = tenants.publish({"flood": 20, "quiet": 5})
        wait_equal(lambda: left(space), 25)
        workers[0].sigterm()
    assert workers[0].wait() == 0
    workers[1].records.started.wait_once(ids)
    wait_equal(lambda: left(space), 0)
    assert workers[1].stop() == 0


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_nothing_is_lost_when_workers_are_killed(
    space: Space, start_worker: StartWorker, tenants: Tenants, pool: str
) -> None:
    """What was unacknowledged comes again to its key."""
    conf = KEYED | {
        "broker_transport_options": {"visibility_timeout": 2},
        "task_acks_late": True,
    }
    ids = tenants.publish({"a": 150, "b": 150, "": 50}, "nap", (0.002,))
    for _ in range(3):
        worker = start_worker(space, pool=pool, concurrency=2, queues=[QUEUE], conf=conf)
        so_far = len(worker.records.started)
        worker.records.started.wait(so_far + 30)
        worker.kill()
        worker.wait()
    worker = start_worker(space, pool=pool, concurrency=2, queues=[QUEUE], conf=conf)
    worker.records.finished.wait_ids(ids)
    wait_equal(lambda: left(space), 0)


def test_non_repeatable_tasks_start_once_or_are_dead(
    space: Space,
    start_worker: StartWorker,
    tenants: Tenants,
    dead_letters: Callable[[], dict[str, dict[str, Any]]],
) -> None:
    conf = KEYED | {"broker_transport_options": {"visibility_timeout": 2}}
    options: dict[str, Any] = {"app": "tests.apps.once", "queues": [QUEUE], "conf": conf}
    ids = tenants.publish({"a": 100, "b": 100}, "before")
    ids += tenants.publish({"c": 100}, "after")
    for _ in range(3):
        worker = start_worker(space, pool="threads", concurrency=2, **options)
        worker.records.started.wait(len(worker.records.started) + 30)
        worker.kill()
        worker.wait()
    worker = start_worker(space, pool="threads", concurrency=2, **options)

    lost = 3 * 2  # "before": what was about to start, in each slot

    def settled() -> bool:
        started = {record.id for record in worker.records.started.read()}
        return len(set(ids) - started - set(dead_letters())) <= lost and not left(space)

    wait_for(settled, 60, lambda: f"{worker.records.started}, {len(dead_letters())} dead")
    assert not worker.records.started.repeated()
    assert all(letter["x-fair-key"] in {"a", "b", "c"} for letter in dead_letters().values())
    wait_equal(lambda: left(space), 0)


def test_what_is_put_off_comes_in_its_time(
    space: Space, start_worker: StartWorker, tenants: Tenants
) -> None:
    worker = start_worker(space, pool="threads", concurrency=2, queues=[QUEUE], conf=KEYED)
    published = time.time()
    late, soon = tenants.publish({"late": 5}, countdown=1), tenants.publish({"soon": 20})
    records = worker.records.started.wait_once(late + soon)
    assert all(record.wall >= published + 1 for record in records if record.id in late)


@on_redis
def test_priorities_are_kept_within_a_key(
    space: Space, start_worker: StartWorker, tenants: Tenants, gate: Gate
) -> None:
    """Low numbers come first on Redis."""
    worker = start_worker(space, queues=[QUEUE], conf=KEYED)
    gate.hold(worker, QUEUE)
    late = publish(
        space.url, {QUEUE: 5}, headers={"x-fair-key": "a"}, properties={"priority": 9}
    ).all()
    with worker.client.connection_for_write() as connection:
        channel = connection.default_channel
        channel.client.rename(QUEUE, f"{QUEUE}\x06\x169")
    soon = tenants.publish({"a": 5})
    gate.open()
    worker.records.started.wait_once(late + soon)
    order = [record.id for record in sorted(worker.records.started.read())]
    assert order[1:] == soon + late


def test_a_cancelled_queue_keeps_its_messages(
    space: Space, start_worker: StartWorker, tenants: Tenants
) -> None:
    worker = start_worker(space, queues=[QUEUE, "other"], conf=KEYED)
    worker.cancel_consumer(QUEUE)
    ids = tenants.publish({"a": 10, "b": 10})
    worker.records.started.wait_once(publish(space.url, {"other": 3}).all())
    assert left(space) == 20
    worker.control("add_consumer", queue=QUEUE)
    worker.records.started.wait_once(ids)


@on_redis
def test_a_flushed_script_and_a_new_connection(
    space: Space, start_worker: StartWorker, tenants: Tenants
) -> None:
    worker = start_worker(space, pool="threads", concurrency=2, queues=[QUEUE], conf=KEYED)
    with worker.client.connection_for_write() as connection:
        redis = connection.default_channel.client
        for kill in (redis.script_flush, lambda: redis.client_kill_filter(skipme=True)):
            worker.records.started.wait_ids(tenants.publish({"a": 20, "b": 20}))
            kill()
    worker.records.started.wait_ids(tenants.publish({"a": 20, "b": 20}))
    assert worker.stop() == -signal.SIGTERM or worker.wait() == 0


@on_redis
def test_garbage_in_the_list(space: Space, start_worker: StartWorker, tenants: Tenants) -> None:
    worker = start_worker(space, queues=[QUEUE], conf=KEYED)
    with worker.client.connection_for_write() as connection:
        redis = connection.default_channel.client
        for raw in (
            "",
            "no json",
            "[]",
            "{}",
            "\xff",
            '{"headers": {"x-fair-key": []}}',
            "[" * 9999,
            b'{"headers": {"x-fair-key": "M\xfcller"}}',
        ):
            redis.lpush(QUEUE, raw)
    ids = tenants.publish({"x" * 65536: 2, "a/b/c": 2, "%": 2, "\0": 2, "é": 2})
    worker.records.started.wait_once(ids)
    wait_equal(lambda: left(space), 0)
    assert worker.stop() == 0


@pytest.mark.parametrize("limit", [{"max_in_flight": 2}, {"keys": {"acme": {"rate": "1/s"}}}])
def test_limits_of_keys_are_refused_on_rabbitmq(
    rabbitmq_space: Space, start_worker: StartWorker, limit: dict[str, Any]
) -> None:
    conf = {"fair_keys": {QUEUE: limit}}
    worker = start_worker(rabbitmq_space, queues=[QUEUE], conf=conf, wait=False)
    assert worker.wait() != 0
    assert "fair_keys['jobs']: this broker (amqp) does not keep count" in worker.log()
