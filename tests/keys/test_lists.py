"""A queue's lists and tags on Redis, without a worker."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kombu import Connection, Exchange, Queue
from redis import Redis
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeout

from celery_fair.brokers.keyed.lists import KeyedLists
from celery_fair.brokers.keyed.scripts import Left, base_of
from celery_fair.brokers.lanes import Lanes
from celery_fair.brokers.redis import Commands
from celery_fair.brokers.redis_acks import acknowledge_held
from celery_fair.core.keys.tags import TenantTags, Turn
from celery_fair.settings.keys import KeyedQueue
from celery_fair.worker.queues.keyed.lane_watch import LaneWatch
from celery_fair.worker.queues.keyed.spare_lanes import SpareLanes
from tests.brokers import RedisServer, Space
from tests.faults.proxy import Proxy
from tests.keys.tenants import QUEUE
from tests.publishing import publish


def lists_of(connection: Connection, queue: str = "jobs", **options: Any) -> KeyedLists:
    channel = connection.channel()
    lists = KeyedLists(channel, Commands(channel), KeyedQueue(queue, **options))
    lists.weigh()
    return lists


def kept(url: str, queue: str = "jobs") -> int:
    """Messages in the queue, in its keys' lists, and unacknowledged."""
    with Redis.from_url(url) as redis:
        lanes = list(redis.scan_iter(f"celery-fair:keys:{queue}:lane:*"))
        return int(redis.hlen("unacked")) + sum(map(redis.llen, [queue, *lanes]))


@contextmanager
def unanswered(space: Space, command: str) -> Iterator[Connection]:
    """The server does what is sent, once it is such a command, and its answer is lost."""
    options: dict[str, Any] = {"retry_on_timeout": True, "socket_timeout": 3}
    with Proxy(space) as proxy, Connection(proxy.url, transport_options=options) as connection:
        trap = proxy.on(command, action="mute")
        with pytest.raises(RedisTimeout):
            yield connection
        assert trap.fired.is_set()


def test_a_question_that_had_no_answer_is_not_repeated(redis_space: Space) -> None:
    """Its messages are held by tags, and others would be recorded by the same."""
    publish(redis_space.url, {"jobs": 10}).all()
    with unanswered(redis_space, "EVALSHA") as connection:
        lists_of(connection).pop(3, 1.0, "tag", [])
    assert kept(redis_space.url) == 10


def test_nor_is_an_acknowledgement(redis_space: Space) -> None:
    """The second would find nothing: the message would count as another worker's."""
    publish(redis_space.url, {"jobs": 1}).all()
    with unanswered(redis_space, "ZREM") as connection:
        message = connection.SimpleQueue("jobs").get(timeout=30)
        acknowledge_held(Commands(message.channel), message)
    assert kept(redis_space.url) == 0


def test_a_server_that_is_full_is_emptied(own_redis: RedisServer) -> None:
    space = own_redis.space()
    publish(space.url, {"jobs": 10}, headers={"x-fair-key": "a"}).all()
    with Connection(space.url) as connection, Redis.from_url(space.url) as redis:
        lists = lists_of(connection)
        redis.config_set("maxmemory", 1)
        _, _, taken = lists.pop(3, 1.0, "tag", [])
        redis.config_set("maxmemory", 0)
    assert len(taken) == 3


def test_what_a_worker_takes_meanwhile_is_not_dropped(redis_space: Space) -> None:
    publish(redis_space.url, {"jobs": 3}, headers={"x-fair-key": "a"}).all()
    with Connection(redis_space.url) as connection, Redis.from_url(redis_space.url) as redis:
        lists = lists_of(connection)
        lists.pop(0, 1.0, "")
        taken: list[object] = []

        def told(raw: bytes) -> str:
            if not taken:
                taken.extend(lists.pop(2, 1.0, "tag")[2])
            return raw.decode()

        assert lists.drop("a", "", "letters", told) == 1
        assert len(taken) == 2
        assert redis.llen("letters") == 1
        assert lists.look()[:2] == (0, 0)


def test_another_part_is_not_forgotten_with_one_that_has_nothing_left(redis_space: Space) -> None:
    with Connection(redis_space.url) as connection:
        lists = lists_of(connection)
        publish(redis_space.url, {"jobs": 1}, headers={"x-fair-key": "acme/A"}).all()
        assert len(lists.pop(1, 1.0, "one")[2]) == 1
        publish(redis_space.url, {"jobs": 2}, headers={"x-fair-key": "acme/B"}).all()
        lists.pop(0, 1.0, "")
        assert lists.drop("acme", "A", "letters", lambda raw: raw.decode()) == 0
        assert len(lists.pop(2, 1.0, "two")[2]) == 2


def test_whom_stricter_settings_held_is_not_held_by_those_that_are_not(redis_space: Space) -> None:
    publish(redis_space.url, {"jobs": 3}, headers={"x-fair-key": "a"}).all()
    with Connection(redis_space.url) as connection:
        assert len(lists_of(connection, rate=1 / 3600).pop(3, 1.0, "one")[2]) == 1
        assert len(lists_of(connection, rate=1 / 3600).pop(3, 1.0, "two")[2]) == 0
        assert len(lists_of(connection).pop(3, 1.0, "three")[2]) == 2


def test_who_comes_is_next_behind_a_flood_that_took_nothing(redis_space: Space) -> None:
    publish(redis_space.url, {"jobs": 61}, headers={"x-fair-key": "flood"}).all()
    with Connection(redis_space.url) as connection:
        lists = lists_of(connection)
        settled: list[tuple[Turn, float]] = []
        for number in range(60):
            [[_, *told]] = lists.pop(1, 1.0, f"{number}.", settled)[2]
            tenant, part, finish, part_finish, *_ = (each.decode() for each in told)
            settled = [(Turn(tenant, part, finish, part_finish, 1.0), -1.0)]
        publish(redis_space.url, {"jobs": 1}, headers={"x-fair-key": "quiet"}).all()
        publish(redis_space.url, {"jobs": 9}, headers={"x-fair-key": "flood"}).all()
        assert b"quiet" in {tenant for _, tenant, *_ in lists.pop(3, 1.0, "last.", settled)[2]}


def test_any_number_of_tenants_can_be_asked_about(redis_space: Space) -> None:
    with Connection(redis_space.url) as connection:
        assert len(lists_of(connection).look(*map(str, range(9000)))[2]) == 9000


def test_a_token_that_was_not_used_is_there_again(redis_space: Space) -> None:
    publish(redis_space.url, {"jobs": 3}, headers={"x-fair-key": "a"}).all()
    with Connection(redis_space.url) as connection:
        lists = lists_of(connection, rate=1 / 3600)
        assert len(lists.pop(3, 1.0, "one")[2]) == 1
        assert len(lists.pop(3, 1.0, "two")[2]) == 0
        assert len(lists.pop(3, 1.0, "two", left=[Left("a", "one1", True)])[2]) == 1
        assert len(lists.pop(3, 1.0, "three", left=[Left("a", "two1", False)])[2]) == 0


@pytest.mark.parametrize(
    ("command", "is_sorted"),
    [
        *((command, False) for command in ("sadd", "zadd", "hincrby", "lmove")),
        *((command, True) for command in ("zadd", "hset", "rpop", "expire")),
    ],
)
def test_a_user_without_a_command_loses_nothing(
    own_redis: RedisServer, command: str, is_sorted: bool
) -> None:
    space = own_redis.space()
    publish(space.url, {"jobs": 10}, headers={"x-fair-key": "a"}).all()
    with Redis.from_url(space.url) as redis, Connection(space.url) as connection:
        if is_sorted:
            lists_of(connection).sort(until=math.inf)
        redis.execute_command(
            "ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*", "+@all", f"-{command}"
        )
    url = space.url.replace("redis://", "redis://worker:secret@").replace("@:", "@")
    with Connection(url) as connection:
        lists = lists_of(connection)
        for tags in ("one", "two"):
            with pytest.raises(ResponseError):
                lists.pop(1, 1.0, tags)
    assert kept(space.url) == 10


def test_who_restores_need_not_know_the_exchange(redis_space: Space) -> None:
    """Any worker of a database does."""
    url = redis_space.url
    orders = Queue("jobs", Exchange("orders", "topic"), "orders.#")
    with Connection(url) as one, Connection(url) as other, Redis.from_url(url) as redis:
        one.Producer().publish(
            [], exchange=orders.exchange, routing_key="orders.new", declare=[orders]
        )
        assert len(lists_of(one).pop(1, 1.0, "tag")[2]) == 1
        channel: Any = other.channel()
        channel.qos.restore_by_tag("tag1")
        assert (redis.llen("jobs"), redis.hlen("unacked")) == (1, 0)


def test_long_messages_are_sorted_few_at_a_time(redis_space: Space) -> None:
    """The server reads each, and does nothing else meanwhile."""
    publish(redis_space.url, {"jobs": 20}, args=["x" * 150_000]).all()  # 200 kB as it is sent
    with Connection(redis_space.url) as connection:
        waiting, unsorted, _ = lists_of(connection).pop(0, 1.0, "", [])
    assert (waiting, unsorted) == (2, 18)


def test_lists_without_a_tag_are_found_whatever_the_queues_name(redis_space: Space) -> None:
    publish(redis_space.url, {"jöbs": 3}, headers={"x-fair-key": "é"}).all()
    with Connection(redis_space.url) as connection, Redis.from_url(redis_space.url) as redis:
        lists = lists_of(connection, "jöbs")
        lists.sort(until=float("inf"))
        redis.delete("celery-fair:keys:jöbs:tags", "celery-fair:keys:jöbs:only")
        cursor: int | None = 0
        while cursor is not None:
            cursor = lists.adopt(cursor)
        _, _, taken = lists.pop(3, 1.0, "tag", [])
    assert [tenant.decode() for _, tenant, *_ in taken] == ["é"] * 3


def test_many_who_may_start_nothing_are_passed_over_some_at_a_time(redis_space: Space) -> None:
    """The server does nothing else meanwhile; who may start comes next all the same."""
    with Connection(redis_space.url) as connection:
        lists = lists_of(connection)
        for number in range(500):
            lists.put(str(number), "", "", "{}")
            lists.pause(str(number), True)
        lists.put("last", "", "", "{}")
        assert [len(lists.pop(1, 1.0, f"{n}.")[2]) for n in range(3)] == [0, 0, 1]


NAMES = st.text(st.sampled_from("ab:%3A"), min_size=1, max_size=9)


@given(NAMES, NAMES)
@example("orders", "orders:tags")
@example("a:b", "a%3Ab")
def test_no_queue_has_keys_of_another(one: str, other: str) -> None:
    bases = base_of(one), base_of(other)
    assert one == other or not f"{bases[0]}:".startswith(f"{bases[1]}:")


def test_a_queue_that_is_called_as_what_another_knows(redis_space: Space) -> None:
    queues = ["orders", "orders:tags"]
    publish(redis_space.url, dict.fromkeys(queues, 3), headers={"x-fair-key": "a"})
    with Connection(redis_space.url) as connection:
        both = [lists_of(connection, queue) for queue in queues]
        for lists in both:
            lists.sort(until=math.inf)
        assert [lists.waiting() for lists in both] == [3, 3]


def test_a_spare_lane_is_one_tenants(redis_space: Space) -> None:
    with Connection(redis_space.url) as connection:
        channel = connection.channel()
        lists = KeyedLists(channel, Commands(channel), KeyedQueue(QUEUE, max_in_flight=1))
        assert lists.spare("a", None, None) is None
        assert lists.spare("a", 7, None) == 7
        assert lists.spare("a", 8, None) == 7  # whoever asks
        assert lists.spare("b", 7, None) is None  # whose watch has seen it empty before
        assert lists.spare("b", 8, None) == 8
        assert lists.spare("", None, 7) is None  # it ran empty
        assert lists.spare("a", None, None) is None
        assert lists.spare("c", 7, None) == 7
        assert lists.spare("c", 9, 7) == 9  # it was shared after all


def test_a_spare_lane_that_is_another_tenants_is_not_offered_again(redis_space: Space) -> None:
    lanes = Lanes(lambda: None, Queue(QUEUE), 8)
    watch = LaneWatch(lanes, lanes, None)  # type: ignore[arg-type]
    watch._spare.update(dict.fromkeys((10, 11, 12)))
    with Connection(redis_space.url) as connection:
        channel = connection.channel()
        link: Any = KeyedLists(channel, Commands(channel), KeyedQueue(QUEUE, max_in_flight=1))
        assert link.spare("another", 12, None) == 12
        spares = SpareLanes(TenantTags(lambda _: 1.0), link, watch, lambda *_: None)
        assert [spares._spare_of("a") for _ in range(2)] == [None, 11]
