"""Keyed queues through what happens to workers and brokers."""

from __future__ import annotations

from typing import Any

import pytest
from redis import Redis

from tests.brokers import RedisServer, Space
from tests.keys.tenants import KEYED, QUEUE, Tenants, left
from tests.waiting import wait_equal
from tests.workers import StartWorker


@pytest.mark.wide
@pytest.mark.parametrize(
    "pool", ["threads", "prefork", pytest.param("gevent", marks=pytest.mark.wide)]
)
def test_redis_is_killed_and_returns(
    own_redis: RedisServer, start_worker: StartWorker, pool: str
) -> None:
    space = own_redis.space()
    tenants = Tenants(space.url)
    ids = tenants.publish({"a": 300, "b/1": 300, "b/2": 300, "c": 5}, "nap", (0.002,))
    conf = KEYED | {"broker_transport_options": {"visibility_timeout": 3}}  # of what was on its way
    worker = start_worker(
        space, pool=pool, concurrency=4, queues=[QUEUE], conf=conf, loglevel="INFO", quiet=False
    )
    worker.records.started.wait(100)
    own_redis.kill()
    own_redis.start()
    own_redis.wait_ready()
    more = tenants.publish({"a": 10, "d": 10})
    worker.records.started.wait_ids(ids + more)
    wait_equal(lambda: left(space), 0)
    assert worker.stop() == 0


def test_what_a_stop_gives_back_comes_first_in_its_order(
    redis_space: Space, start_worker: StartWorker
) -> None:
    """As many are asked for as slots are free, and the leash lets three start.

    On a busy machine the others may have gone back before the stop, as they have not started soon.
    """
    tenants = Tenants(redis_space.url)
    ids = tenants.publish({"a": 20})
    conf = KEYED | {"fair_queues": {QUEUE: {"rate": "3/h", "burst": 3}}}
    worker = start_worker(redis_space, pool="threads", concurrency=8, queues=[QUEUE], conf=conf)
    worker.records.started.wait(3)
    assert worker.stop() == 0
    worker = start_worker(redis_space, queues=[QUEUE], conf=KEYED)
    worker.records.started.wait_once(ids)
    assert [record.id for record in sorted(worker.records.started.read())][3:] == ids[3:]


def test_a_prefix_of_all_keys(redis_space: Space, start_worker: StartWorker) -> None:
    conf = KEYED | {"broker_transport_options": {"global_keyprefix": "shop[1]:"}}
    worker = start_worker(redis_space, pool="threads", concurrency=2, queues=[QUEUE], conf=conf)
    for number in range(20):
        worker.client.send_task("noop", [number], queue=QUEUE, headers={"x-fair-key": "a"})
    worker.records.started.wait(20)
    with Redis.from_url(redis_space.url) as redis:
        assert all(key.startswith(b"shop[1]:") for key in redis.scan_iter())


@pytest.mark.parametrize("option", [{"worker_disable_prefetch": True}, {"fair_policy": "strict"}])
def test_other_ways_of_taking(
    redis_space: Space, start_worker: StartWorker, option: dict[str, Any]
) -> None:
    tenants = Tenants(redis_space.url)
    ids = tenants.publish({"a": 50, "b": 50})
    worker = start_worker(redis_space, pool="threads", concurrency=2, conf=KEYED | option)
    worker.records.started.wait_once(ids)
    order = tenants.started(worker.records.started)
    assert order[:50].count("a") == pytest.approx(25, abs=4)


def test_a_user_without_rights_to_the_keys_lists(
    own_redis: RedisServer, start_worker: StartWorker
) -> None:
    space = own_redis.space()
    with Redis.from_url(space.url) as redis:
        redis.execute_command(
            "ACL",
            "SETUSER",
            "worker",
            "on",
            ">secret",
            "+@all",
            f"~{QUEUE}*",
            "~unacked*",
            "~_kombu*",
            "~*pidbox*",
            "&*",
        )
    url = space.url.replace("redis://", "redis://worker:secret@").replace("@:", "@")
    worker = start_worker(url, queues=[QUEUE], conf=KEYED, wait=False)
    assert worker.wait() != 0
    assert "no keys that begin with celery-fair:keys:jobs" in worker.log()
    assert "allow ~celery-fair:*" in worker.log()
    assert "secret" not in worker.log()
