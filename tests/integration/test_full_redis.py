"""A Redis that a flood has filled, where workers work it off; or that refuses all for a while."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery
from kombu import Connection
from kombu.exceptions import OperationalError
from redis.exceptions import OutOfMemoryError

from celery_fair.brokers.full_redis import let_work
from tests.brokers import RedisServer
from tests.integration.depths import left, ready, unsettled
from tests.integration.gate import closing_gate
from tests.keys.tenants import KEYED, QUEUE, Tenants
from tests.publishing import publish
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker

APP = "tests.apps.once"
MANY = 20


@pytest.mark.parametrize(("pool", "prefix"), [("prefork", ""), ("threads", "shop:")])
def test_a_worker_starts_there_and_works_it_off(
    own_redis: RedisServer, start_worker: StartWorker, pool: str, prefix: str
) -> None:
    """Though it never has room for anything."""
    space = own_redis.space()
    options = {"global_keyprefix": prefix} if prefix else {}
    conf: dict[str, Any] = {"broker_transport_options": options}
    with Celery(broker=space.url, set_as_current=False) as app:
        app.conf.update(conf)
        for number in range(3):
            app.send_task("nosuchtask", [number], queue="a")
        ids = [
            app.send_task(name, [number], queue="a").id
            for number in range(MANY)
            for name in ("plain", "before", "after")
        ]
        own_redis.client.config_set("maxmemory", 1)
        with pytest.raises(OperationalError, match="maxmemory"):
            app.send_task("plain", [0], queue="a")

    worker = start_worker(space, app=APP, queues=["a"], pool=pool, conf=conf, quiet=False)
    worker.records.finished.wait_once(ids)
    client = own_redis.client_of(space.place)
    wait_for(lambda: client.llen(f"{prefix}dead-letters") == 3, 30, worker.log)
    assert worker.stop() == 0
    assert client.hlen(f"{prefix}unacked") == client.llen(f"{prefix}a") == 0
    assert "OutOfMemory" not in worker.log()
    assert worker.log().count("Redis has no memory left") == 1


def test_by_key_by_a_leash_and_with_a_ledger_there(
    own_redis: RedisServer, start_worker: StartWorker
) -> None:
    space = own_redis.space()
    tenants = Tenants(space.url)
    ids = [
        *tenants.publish({"acme": MANY, "zeta": MANY}, "plain", ["", 0]),
        *tenants.publish({"acme": MANY, "zeta": MANY}, "before", ["", 0]),
    ]
    own_redis.client.config_set("maxmemory", 1)
    conf = {
        "fair_keys": {QUEUE: {"max_in_flight": 2, "rate": 1000, "burst": 100}},
        "fair_queues": {QUEUE: {"rate": 1000, "burst": 100, "scope": "cluster"}},
        "fair_ledger": space.url,
    }
    worker = start_worker(space, app=APP, queues=[QUEUE], conf=conf, quiet=False)
    worker.records.finished.wait_once(ids)
    assert worker.stop() == 0
    assert own_redis.client_of(space.place).hlen("unacked") == 0
    assert "maxmemory" not in worker.log()


def test_a_workers_channels_may_do_all_but_publish(own_redis: RedisServer) -> None:
    with Connection(own_redis.url()) as connection, connection.channel() as channel:
        client = let_work(channel, channel._create_client())
        own_redis.client.config_set("maxmemory", 1)
        assert client.set("lock", "me", nx=True) is True
        assert client.set("lock", "you", nx=True) is None
        assert client.pipeline().zadd("held", {"tag": 1}).llen("jobs").execute() == [1, 0]
        script = client.register_script("return redis.call('SADD', KEYS[1], ARGV[1])")
        assert script(keys=["bound"], args=["jobs"]) == 1
        with client.pipeline() as pipe:
            script(keys=["bound"], args=["mail"], client=pipe)
            assert pipe.scard("bound").execute() == [1, 2]
        for refused in (client, client.pipeline()):
            with pytest.raises(OutOfMemoryError):
                refused.lpush("jobs", "message").execute()


@pytest.mark.parametrize("task", ["plain", "before"])
def test_what_has_not_started_goes_back_there(
    own_redis: RedisServer, start_worker: StartWorker, task: str
) -> None:
    space = own_redis.space()
    with closing_gate() as gate:
        ids = publish(space.url, {"a": 20}, task, [str(gate.path)]).all()
        own_redis.client.config_set("maxmemory", 1)
        worker = start_worker(space, app=APP, queues=["a"], pool="threads", quiet=False)
        worker.records.started.wait(1)
        wait_for(lambda: unsettled(space, "a") > (task == "plain"), 30, worker.log)
        worker.process.send(15)
        wait_for(lambda: "Warm shutdown" in worker.log(), 30, worker.log)
    assert worker.process.wait(60) == 0
    started = worker.records.started.read()
    assert ready(space, "a") == len(ids) - len(started)
    assert unsettled(space, "a") == 0
    next_one = start_worker(space, app=APP, queues=["a"], pool="threads")
    next_one.records.started.wait_once({*ids} - {record.id for record in started})


def test_a_retry_has_its_place(own_redis: RedisServer, start_worker: StartWorker) -> None:
    """That of the message that was acknowledged; it would be lost."""
    space = own_redis.space()
    (task,) = publish(space.url, {"a": 1}, "again").all()
    own_redis.client.config_set("maxmemory", 1)
    worker = start_worker(space, app="tests.apps.levels", queues=["a"], quiet=False)
    wait_for(lambda: worker.records.started.times([task]), 30, worker.log)
    assert worker.stop() == 0


def test_what_a_dead_worker_held_comes_back(
    own_redis: RedisServer, start_worker: StartWorker
) -> None:
    space = own_redis.space()
    timeouts = {"visibility_timeout": 2, "unacked_restore_interval": 1}
    options: dict[str, Any] = {"app": APP, "queues": ["a"], "pool": "threads", "concurrency": 2}
    conf = {"broker_transport_options": timeouts}
    with closing_gate() as gate:
        ids = publish(space.url, {"a": 2}, "late", [str(gate.path)]).all()
        dead = start_worker(space, conf=conf, **options)
        dead.records.started.wait_ids(ids)
        dead.kill()
        own_redis.client.config_set("maxmemory", 1)
        worker = start_worker(space, conf=conf, **options)
        wait_for(lambda: len(worker.records.started) >= 2 * len(ids), 30, worker.log)
    worker.records.finished.wait_ids(ids)
    wait_equal(lambda: left(space, "a"), 0)  # what was held for long has come back once more
    assert worker.stop() == 0
    assert left(space, "a") == 0


def test_what_it_refuses_for_a_while_ends_no_worker(
    own_redis: RedisServer, start_worker: StartWorker
) -> None:
    """As amid a failover, or with a full disk: what comes then starts, in the same worker."""
    space = own_redis.space()
    worker = start_worker(space, app=APP, queues=[QUEUE], pool="threads", conf=KEYED, quiet=False)
    own_redis.client.config_set("min-replicas-to-write", 1)
    wait_for(lambda: worker.log().count("NOREPLICAS") > 2, 30, worker.log)
    own_redis.client.config_set("min-replicas-to-write", 0)
    worker.records.started.wait_once(publish(space.url, {QUEUE: 4}, "plain").all())
    assert worker.stop() == 0
