"""Caps and leashes of single keys, which all workers share; pauses."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from threading import Event, Thread
from typing import Any

import pytest
from celery import Celery
from celery.bin.base import CLIContext
from click.testing import CliRunner
from kombu import Connection
from redis import Redis

from celery_fair import install
from celery_fair.brokers.keyed.lists import KeyedLists
from celery_fair.brokers.keyed.store import KeyStore
from celery_fair.brokers.redis import Commands
from celery_fair.cli import fair
from celery_fair.clock import elapsed
from celery_fair.core.gate import SLACK
from celery_fair.core.keys.tags import Turn
from celery_fair.settings.keys import KeyedQueue
from celery_fair.worker.queues.keyed.key_slots import KeySlots
from tests.brokers import Space
from tests.faults.proxy import Proxy
from tests.integration.gate import closing_gate
from tests.keys.conftest import Run
from tests.keys.tenants import QUEUE, Tenants, left, publisher
from tests.publishing import publish
from tests.records import Records
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker, WorkerProcess

B = {"max_in_flight": 4, "weight": 9}


Limited = Callable[..., dict[str, Any]]

on_redis = pytest.mark.parametrize("space", ["redis"], indirect=True)


@pytest.fixture(params=["redis", "rabbitmq"])
def space(request: pytest.FixtureRequest) -> Space:
    space: Space = request.getfixturevalue(f"{request.param}_space")
    return space


@pytest.fixture
def limited(space: Space, redis_space: Space) -> Limited:
    """Return the settings of a queue whose keys have limits; on RabbitMQ a Redis counts."""
    store = {"fair_key_store": redis_space.url} if space.url.startswith("amqp") else {}
    return lambda **options: {"fair_keys": {QUEUE: options}, **store}


def most_at_once(tenants: Tenants, records: Records) -> dict[str, int]:
    """How many of each tenant's tasks ran at once, at the most."""
    moments = [(r.monotonic_ns, 1, r.id) for r in records.started.read()]
    moments += [(r.monotonic_ns, -1, r.id) for r in records.finished.read()]
    running: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for _, change, task in sorted(moments):
        tenant = tenants.of[task]
        running[tenant] += change
        most[tenant] = max(most[tenant], running[tenant])
    return dict(most)


@pytest.mark.either_broker("redis")
@pytest.mark.parametrize("pool", ["threads", "prefork", "gevent"])
def test_a_cap_is_the_clusters(
    space: Space, start_worker: StartWorker, tenants: Tenants, pool: str, limited: Limited
) -> None:
    """And what it leaves free is others'."""
    conf = limited(max_in_flight=2, keys={"b": B, "c": {"max_in_flight": None}})
    ids = tenants.publish({"a/1": 10, "a/2": 10, "b": 40, "c": 60}, "nap", (0.1,))
    tenants.of = {task: key.partition("/")[0] for task, key in tenants.of.items()}
    workers = [
        start_worker(space, pool=pool, concurrency=5, queues=[QUEUE], conf=conf) for _ in range(2)
    ]
    workers[0].records.finished.wait_ids(ids)
    found = most_at_once(tenants, workers[0].records)
    assert (found["a"], found["b"]) == (2, 4)
    assert found["c"] > 4
    assert [worker.stop() for worker in workers] == [0, 0]
    wait_equal(lambda: left(space), 0)


def test_places_of_a_killed_worker_come_back(
    space: Space, start_worker: StartWorker, tenants: Tenants, limited: Limited
) -> None:
    """While another one keeps its own."""
    conf = limited(max_in_flight=2, lease=1.5)
    with closing_gate() as gate:
        worker = start_worker(space, queues=[QUEUE], conf=conf)
        tenants.publish({"a": 1}, "hold", [str(gate.path)])
        worker.records.started.wait(1)
        other = start_worker(space, pool="threads", concurrency=4, queues=[QUEUE], conf=conf)
        tenants.publish({"a": 1}, "hold", [str(gate.path)])
        other.records.started.wait(2)
        ids = tenants.publish({"a": 4})
        worker.kill()
        other.records.started.wait_once(ids)


def test_a_long_task_keeps_its_place(
    space: Space, start_worker: StartWorker, tenants: Tenants, limited: Limited
) -> None:
    """Longer than its lease, in the main thread of a worker that can do nothing else."""
    conf = limited(max_in_flight=1, lease=4)
    with closing_gate() as gate:
        solo = start_worker(space, pool="solo", queues=[QUEUE], conf=conf)
        tenants.publish({"a": 1}, "hold", [str(gate.path)])
        solo.records.started.wait(1)
        other = start_worker(space, pool="threads", concurrency=2, queues=[QUEUE], conf=conf)
        ids = tenants.publish({"a": 3, "b": 1})
        other.records.started.wait_ids(ids[3:])
        for _ in range(4):  # each of them after the one before, while a's wait: more than a lease
            other.records.finished.wait_ids(tenants.publish({"b": 1}, "nap", (1.25,)))
        assert not set(ids[:3]) & {record.id for record in other.records.started.read()}
    other.records.started.wait_once(ids)
    assert solo.stop() == 0


def test_a_stop_leaves_its_places(
    space: Space, start_worker: StartWorker, tenants: Tenants, limited: Limited
) -> None:
    conf = limited(max_in_flight=1, lease=600)
    with closing_gate() as gate:
        worker = start_worker(space, pool="threads", concurrency=2, queues=[QUEUE], conf=conf)
        tenants.publish({"a": 1}, "hold", [str(gate.path)])
        worker.records.started.wait(1)
        worker.sigterm()
        ids = tenants.publish({"a": 3})
    assert worker.wait() == 0
    other = start_worker(space, queues=[QUEUE], conf=conf)
    other.records.started.wait_once(ids)


def test_a_connection_that_is_lost_keeps_and_leaves_places(
    space: Space, start_worker: StartWorker, tenants: Tenants, limited: Limited
) -> None:
    conf = limited(max_in_flight=1, lease=600)
    with Proxy(space) as proxy, closing_gate() as gate:
        worker = start_worker(proxy.url, pool="threads", concurrency=2, queues=[QUEUE], conf=conf)
        first = tenants.publish({"a": 1}, "hold", [str(gate.path)])
        worker.records.started.wait(1)
        ids = tenants.publish({"a": 3})
        proxy.cut()
        other = tenants.publish({"b": 1})
        worker.records.started.wait_ids(other)
        assert not set(ids) & {record.id for record in worker.records.started.read()}
        gate.open()
        worker.records.started.wait_ids([*first, *ids])
        assert worker.stop() == 0


def test_a_leash_is_the_clusters(
    space: Space, start_worker: StartWorker, tenants: Tenants, limited: Limited
) -> None:
    """No more are chosen than its burst and what has come in; a start may trail its choice."""
    rate, burst, count = 20.0, 3, 60
    conf = limited(keys={"a": {"rate": f"{rate:g}/s", "burst": burst}})
    workers = [
        start_worker(space, pool="threads", concurrency=4, queues=[QUEUE], conf=conf)
        for _ in range(2)
    ]
    began = time.monotonic()  # the first start may trail its choice by more than the last
    ids = tenants.publish({"a": count, "b": 300}, "nap", (0.002,))
    workers[0].records.started.wait_ids(ids)
    last = max(
        record.monotonic_ns / 1e9
        for record in workers[0].records.started.read()
        if tenants.of[record.id] == "a"
    )
    assert count <= burst + rate * (last - began + SLACK)
    assert [worker.stop() for worker in workers] == [0, 0]


def test_what_waits_for_its_eta_has_no_place(
    space: Space, start_worker: StartWorker, tenants: Tenants, limited: Limited
) -> None:
    """And comes by the key's turn when it is due."""
    conf = limited(max_in_flight=1)
    worker = start_worker(space, pool="threads", concurrency=3, queues=[QUEUE], conf=conf)
    assert worker.inspect("scheduled") == []  # it hears commands from now on
    later = tenants.publish({"a": 5}, "nap", (0.05,), countdown=8)
    wait_for(lambda: len(worker.inspect("scheduled")) == 5, 30)
    ids = tenants.publish({"a": 5}, "nap", (0.02,))
    worker.records.finished.wait_ids(ids + later)
    assert most_at_once(tenants, worker.records) == {"a": 1}
    worker.records.started.wait_once(ids + later)
    assert worker.stop() == 0


def test_what_has_expired_leaves_its_place(
    space: Space, start_worker: StartWorker, tenants: Tenants, limited: Limited
) -> None:
    """At once: nothing else reaches the worker, which might forget the message."""
    tenants.publish({"a": 3}, expires=0.001)
    conf = limited(max_in_flight=1, lease=600)
    worker = start_worker(space, pool="threads", concurrency=3, queues=[QUEUE], conf=conf)
    wait_equal(lambda: left(space), 0)
    worker.records.started.wait_once(tenants.publish({"a": 2}))
    assert worker.stop() == 0


@on_redis
def test_what_is_set_live(
    space: Space, start_worker: StartWorker, tenants: Tenants, run: Run, limited: Limited
) -> None:
    worker = start_worker(space, pool="threads", concurrency=6, queues=[QUEUE], conf=limited())
    assert run("keys", "set", QUEUE, "a", "max_in_flight=1").exit_code == 0
    with closing_gate() as gate:
        ids = tenants.publish({"a": 4}, "hold", [str(gate.path)])
        worker.records.started.wait(1)
        assert run("keys", "pause", QUEUE, "b").output == "b is paused in jobs\n"
        said = run("keys", "show", QUEUE, "b").output  # which no worker has come upon yet
        assert said.startswith("b has nothing waiting in jobs; it is paused; fair keys resume")
        paused, other = tenants.publish({"b": 2}), tenants.publish({"c": 1})
        worker.records.started.wait_ids(other)
        rows = {
            row["tenant"]: row for row in json.loads(run("keys", "list", QUEUE, "-j").output)["top"]
        }
        assert (rows["a"]["reason"], rows["a"]["running"], rows["a"]["waiting"]) == ("cap", 1, 3)
        assert (rows["b"]["reason"], rows["b"]["waiting"]) == ("paused", 2)
        assert "1 of 1" in run("keys", "list", QUEUE).output
        said = run("keys", "show", QUEUE, "a").output
        assert said.startswith("a has 3 messages waiting in jobs: 1 of 1 tasks run")
        assert (
            "b has 2 messages waiting in jobs: it is paused"
            in run("keys", "show", QUEUE, "b").output
        )
        assert run("keys", "show", QUEUE, "z").output.startswith("z has nothing waiting in jobs\n")

        assert run("keys", "resume", QUEUE, "b").exit_code == 0
        worker.records.started.wait_ids(paused)
        assert run("keys", "set", QUEUE, "a", "max_in_flight=3").exit_code == 0
        worker.records.started.wait_ids(ids[:3])
        assert ids[3] not in {record.id for record in worker.records.started.read()}
        assert run("keys", "set", QUEUE, "a", "--reset").exit_code == 0
        worker.records.started.wait_ids(ids)
    assert worker.stop() == 0


@on_redis
def test_what_gets_no_slot_goes_back(
    space: Space,
    start_worker: StartWorker,
    tenants: Tenants,
    limited: Limited,
    dead_letters: Callable[[], dict[str, Any]],
) -> None:
    """To the head of its key's line, with the key's place, and as if nobody had had it."""
    conf = limited(max_in_flight=1, lease=600)
    options: dict[str, Any] = {"app": "tests.apps.once", "pool": "threads", "queues": [QUEUE]}
    with closing_gate() as gate:
        first = tenants.publish(dict.fromkeys("abcd", 1), "before", [str(gate.path)])
        second = tenants.publish(dict.fromkeys("abcd", 1), "before")
        capped = conf | {"fair_queues": {QUEUE: {"max_in_flight": 1}}}
        asks = start_worker(space, concurrency=4, conf=capped, **options)  # for all four
        asks.records.started.wait(1)
        other = start_worker(space, concurrency=4, conf=conf, **options)
        assert len(other.records.started.wait_ids(first, 20)) == len(first)
    other.records.started.wait_once(second)
    assert [asks.stop(), other.stop()] == [0, 0]
    assert not dead_letters()


on_rabbitmq = pytest.mark.parametrize("space", ["rabbitmq"], indirect=True)


@pytest.fixture
def command(space: Space, limited: Limited) -> Iterator[Run]:
    """Run a command of an app on RabbitMQ, with a store."""
    with Celery("shop", broker=space.url, set_as_current=False) as app:
        app.conf.update(limited())
        install(app)
        context = CLIContext(app=app, no_color=True, workdir=None)
        yield lambda *words: CliRunner().invoke(fair, words, obj=context)


@on_rabbitmq
def test_what_is_set_live_in_a_store(
    space: Space, start_worker: StartWorker, tenants: Tenants, command: Run, limited: Limited
) -> None:
    worker = start_worker(space, pool="threads", concurrency=6, queues=[QUEUE], conf=limited())
    assert command("keys", "set", QUEUE, "a", "max_in_flight=1").exit_code == 0
    assert command("keys", "pause", QUEUE, "b").output == "b is paused in jobs\n"
    with closing_gate() as gate:
        wait_for(lambda: _is_held(worker, tenants, "b"), 30)
        worker.records.started.wait_ids(tenants.publish({"a": 1}, "hold", [str(gate.path)]))
        waiting, paused = tenants.publish({"a": 3}), tenants.publish({"b": 2})
        worker.records.started.wait_ids(tenants.publish({"c": 1}))
        wait_for(
            lambda: "1 of 1 tasks run" in command("keys", "show", QUEUE, "a").output,
            30,
            lambda: command("keys", "show", QUEUE, "a").output,
        )
        found = json.loads(command("keys", "show", QUEUE, "b", "-j").output)
        assert (found["reason"], found["running"]) == ("paused", 0)
        started = {record.id for record in worker.records.started.read()}
        assert found["waiting"] + found["unsorted"] <= len(tenants.of.keys() - started)
        assert not started.intersection(waiting + paused)
        assert command("keys", "resume", QUEUE, "b").exit_code == 0
        worker.records.started.wait_ids(paused)
        assert command("keys", "set", QUEUE, "a", "--reset").exit_code == 0
        worker.records.started.wait_ids(waiting)
    answer = command("keys", "drop", QUEUE, "a", "--yes")
    assert answer.exit_code == 1
    assert "cannot be told from the others" in answer.output
    assert worker.stop() == 0
    wait_equal(lambda: left(space), 0)


@on_rabbitmq
def test_a_store_that_no_command_reaches(space: Space, limited: Limited) -> None:
    with Celery("shop", broker=space.url, set_as_current=False) as app:
        app.conf.update(limited() | {"fair_key_store": "redis://:secret@127.0.0.1:1"})
        install(app)
        context = CLIContext(app=app, no_color=True, workdir=None)
        answers = [
            CliRunner().invoke(fair, words, obj=context)
            for words in (["keys", "pause", QUEUE, "a"], ["keys", "show", QUEUE, "a"])
        ]
    for answer in answers:
        assert answer.exit_code == 1
        assert answer.output.startswith("Error: fair_key_store: ")
        assert len(answer.output.splitlines()) == 1
        assert "secret" not in answer.output


def _is_held(worker: WorkerProcess, tenants: Tenants, tenant: str) -> bool:
    """Whether the worker knows that one tenant, of which alone something waits, is to wait."""
    tenants.publish({tenant: 1})
    return bool(worker.control("fair_explain", queue=QUEUE)["reason"] == "keys")


@pytest.mark.timeout(240)
@on_rabbitmq
@pytest.mark.parametrize(
    ("pool", "how"), [("threads", "refuse"), ("threads", "hold"), ("gevent", "hold")]
)
def test_a_store_that_is_away(
    space: Space,
    redis_space: Space,
    start_worker: StartWorker,
    tenants: Tenants,
    limited: Limited,
    pool: str,
    how: str,
) -> None:
    """Who has a limit waits for it, and nobody else, also while what has ended cannot be told."""
    with Proxy(redis_space) as proxy, closing_gate() as gate:
        conf = limited(keys={"a": {"max_in_flight": 2}}) | {"fair_key_store": proxy.url}
        worker = start_worker(space, pool=pool, concurrency=4, queues=[QUEUE], conf=conf)
        running = tenants.publish({"a": 1}, "hold", [str(gate.path)])
        ending = tenants.publish({"a": 1}, "nap", (1,))
        worker.records.started.wait_ids(running + ending)
        getattr(proxy, how)()
        if how == "refuse":
            proxy.cut()
        worker.records.finished.wait_ids(ending)
        waiting = tenants.publish({"a": 5})
        worker.records.started.wait_ids(tenants.publish({"b": 1500}))
        wait_for(lambda: "store of the keys of queue jobs cannot be reached" in worker.log(), 30)
        assert not set(waiting) & {record.id for record in worker.records.started.read()}
        proxy.release()
        worker.records.started.wait_once(tenants.of, 120)  # it is asked again within 40 s
        gate.open()
        assert worker.stop() == 0
    assert "store of the keys of queue jobs is back" in worker.log()
    wait_equal(lambda: left(space), 0)


@on_rabbitmq
def test_a_key_that_waits_hides_nobody_in_the_front(
    space: Space, start_worker: StartWorker, tenants: Tenants, limited: Limited
) -> None:
    conf = limited(keys={"a": {"max_in_flight": 1}})
    with closing_gate() as gate:
        ids = tenants.publish({"a": 40}, "hold", [str(gate.path)])
        worker = start_worker(space, pool="threads", concurrency=2, queues=[QUEUE], conf=conf)
        worker.records.started.wait(1)
        worker.records.started.wait_ids(tenants.publish({"b": 20}))  # in all fewer than are sorted
    worker.records.started.wait_once(ids)
    assert worker.stop() == 0


@on_rabbitmq
def test_a_key_that_waits_is_in_nobodys_way(
    space: Space, start_worker: StartWorker, tenants: Tenants, limited: Limited
) -> None:
    """Neither in the front, nor as what has come from a lane and is to wait."""
    conf = limited(keys={"a": {"max_in_flight": 1}, "z": {"max_in_flight": 1}})
    options: dict[str, Any] = {"pool": "threads", "queues": [QUEUE], "conf": conf}
    with closing_gate() as gate:
        flooding = Tenants(space.url, installed=True)
        ids = tenants.publish({"a": 60}, "hold", [str(gate.path)])
        ids += flooding.publish({"z": 60}, "hold", [str(gate.path)])
        full = start_worker(space, concurrency=2, **options)
        full.records.started.wait(2)
        worker = start_worker(space, concurrency=4, **options)  # which does not know the lane yet
        for _ in range(10):  # fewer than are sorted
            worker.records.started.wait_ids(tenants.publish({"b": 20}))
        assert len(worker.records.started.read()) == 202
    worker.records.started.wait_once(ids)
    assert [each.stop() for each in (full, worker)] == [0, 0]
    wait_equal(lambda: left(space), 0)


@on_rabbitmq
@pytest.mark.parametrize("how", ["cap", "pause"])
def test_a_key_that_waits_keeps_nobody_waiting_who_shares_its_lane(
    space: Space, start_worker: StartWorker, limited: Limited, redis_space: Space, how: str
) -> None:
    """Also if the worker has never seen another's message in that lane."""
    conf = limited(lanes=1, keys={"a": {"max_in_flight": 1}} if how == "cap" else {})
    others = [f"key{number}" for number in range(6)]
    with closing_gate() as gate, publisher(space.url, **conf) as app:
        send = partial(app.send_task, queue=QUEUE)
        parts = [("a", 1), ("a", 2)]  # all that is of one tenant waits
        ids = [
            send("hold", [n, str(gate.path)], fair_key=part).id for n in range(75) for part in parts
        ]
        mates = [send("noop", [n], fair_key=key).id for n in range(30) for key in others]
        if how == "pause":
            with closing(KeyStore(redis_space.url)) as store:
                store.lists(KeyedQueue(QUEUE)).pause("a", True)
        worker = start_worker(space, pool="threads", concurrency=2, queues=[QUEUE], conf=conf)
        worker.records.started.wait_ids(mates)
        assert len({record.id for record in worker.records.started.read()} - {*mates}) <= 1
        assert sum(name.startswith(f"{QUEUE}.fair.") for name in space.depths()) == 2
        if how == "pause":
            with closing(KeyStore(redis_space.url)) as store:
                store.lists(KeyedQueue(QUEUE)).pause("a", False)
        gate.open()
        worker.records.started.wait_once(ids + mates)
        assert worker.stop() == 0
    wait_equal(lambda: left(space), 0)


class Message:
    """What there is to know of a message that has a place."""

    delivery_tag = "tag1"
    turn = Turn("a", "", "0", "0", 1.0, "place", place="tag1")

    def come_by(self, turn: Turn) -> None:
        self.turn = turn


@pytest.fixture
def taken(space: Space) -> KeyedQueue:
    """A queue of which a message was taken; its tag is that of `Message`."""
    keyed = KeyedQueue(QUEUE, max_in_flight=1, lease=6)
    publish(space.url, {QUEUE: 1}, headers={"x-fair-key": "a"}).all()
    with Connection(space.url) as connection:
        channel = connection.channel()
        _, _, [[_, *turn]] = KeyedLists(channel, Commands(channel), keyed).pop(1, 1.0, "tag")
    assert turn[4] == b"place"
    return keyed


RUNNING = f"celery-fair:keys:{QUEUE}:running:a"


@on_redis
def test_a_message_whose_place_is_lost_does_not_start(
    space: Space, taken: KeyedQueue, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody has heard of its worker for a lease, and another has its place."""
    message, places = Message(), KeySlots(lambda: Connection(space.url), {QUEUE: taken})
    places.take(QUEUE, message, 1e12)
    assert places.holds(QUEUE, message)
    with Redis.from_url(space.url) as redis:
        redis.delete(RUNNING)
    wait_for(lambda: not places.holds(QUEUE, message), 30)
    places.close()
    assert "1 messages of queue jobs have lost their slots" in caplog.text


@on_redis
def test_a_machine_that_slept_has_lost_its_places(
    space: Space, taken: KeyedQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing starts by them, even before Redis has been asked again."""
    message, places = Message(), KeySlots(lambda: Connection(space.url), {QUEUE: taken})
    places.take(QUEUE, message, elapsed())
    assert places.holds(QUEUE, message)
    awake = elapsed
    monkeypatch.setattr("celery_fair.worker.queues.keyed.key_slots.elapsed", lambda: awake() + 3600)
    assert not places.holds(QUEUE, message)
    places.close()


@on_redis
def test_what_ends_while_leases_are_renewed_is_told(space: Space, taken: KeyedQueue) -> None:
    """Also if it is the last thing that the worker does."""
    connecting, go = Event(), Event()

    def connect() -> Connection:
        connecting.set()
        assert go.wait(30)
        return Connection(space.url)

    message, places = Message(), KeySlots(connect, {QUEUE: replace(taken, lease=600)})
    places.take(QUEUE, message, elapsed())
    assert connecting.wait(30)
    assert places.leave(QUEUE, message, unused=False)
    closing = Thread(target=places.close)
    closing.start()
    wait_for(places._closed.is_set, 30)
    go.set()
    closing.join(30)
    with Redis.from_url(space.url) as redis:
        assert redis.zcard(RUNNING) == 0


@on_redis
def test_a_message_that_is_gone_leaves_its_place(space: Space, taken: KeyedQueue) -> None:
    """Whoever had it has forgotten it, for an error say."""
    message, places = Message(), KeySlots(lambda: Connection(space.url), {QUEUE: taken})
    places.take(QUEUE, message, elapsed())
    del message
    with Redis.from_url(space.url) as redis:
        wait_equal(lambda: redis.zcard(RUNNING), 0)
    places.close()
