"""Publishers with `install` and ``fair_keys``: nothing is left to be sorted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from celery import Celery, group, signature
from kombu.exceptions import OperationalError
from redis import Redis

from tests.brokers import RedisServer, Space
from tests.keys.tenants import KEYED, QUEUE, left, publisher, send
from tests.waiting import wait_equal
from tests.workers import StartWorker


@pytest.fixture
def app(space: Space) -> Iterator[Celery]:
    with publisher(space.url) as app:
        yield app


def unsorted(space: Space) -> int:
    with Redis.from_url(space.url) as redis:
        return sum(redis.llen(f"{QUEUE}{step}") for step in ("", "\x06\x163", "\x06\x166"))


def test_who_was_quiet_is_next_however_much_was_published_before(
    space: Space, start_worker: StartWorker, app: Celery
) -> None:
    """No worker has to read through a flood."""
    flood, quiet = send(app, "flood", 1000), send(app, "quiet")
    assert unsorted(space) == 1  # the one with which the publisher has connected
    worker = start_worker(space, queues=[QUEUE], conf=KEYED, wait=False)
    starts = [record.id for record in sorted(worker.records.started.wait_once(flood + quiet))]
    assert starts.index(quiet[0]) < 3
    assert worker.stop() == 0


def test_all_that_a_message_can_have(space: Space, start_worker: StartWorker, app: Celery) -> None:
    later = send(app, "a", 2, countdown=1)
    urgent = send(app, "a", 3, priority=9)
    nobodys = send(app, None, 3)
    assert unsorted(space) == 1
    jobs = group(signature("noop", args=[n], app=app) for n in range(5)).apply_async(fair_key="b")
    worker = start_worker(space, queues=[QUEUE], conf=KEYED, wait=False)
    worker.records.started.wait_once([*later, *urgent, *nobodys, *(job.id for job in jobs)])
    wait_equal(lambda: left(space), 0)
    assert worker.stop() == 0


def test_a_user_who_may_only_publish(own_redis: RedisServer, start_worker: StartWorker) -> None:
    space = own_redis.space()
    with Redis.from_url(space.url) as redis:
        rights = ["on", ">secret", "~*", "&*", "+@all", "-@scripting"]
        redis.execute_command("ACL", "SETUSER", "shop", *rights)
    with publisher(space.url.replace("redis://", "redis://shop:secret@").replace("@:", "@")) as app:
        ids = send(app, "a", 3, retry=False)
    assert unsorted(space) == 3
    worker = start_worker(space, queues=[QUEUE], conf=KEYED, wait=False)
    worker.records.started.wait_once(ids)
    assert worker.stop() == 0


def test_a_broker_that_is_down(own_redis: RedisServer) -> None:
    """As many attempts as Celery makes, and then its error."""
    space = own_redis.space()
    own_redis.kill()
    with publisher(space.url) as app:
        for _ in range(2):
            with pytest.raises(OperationalError):
                send(app, "a")
        own_redis.start()
        own_redis.wait_ready()
        send(app, "a", 3)
    assert (unsorted(space), left(space)) == (1, 3)
