"""Redis's script chooses whom `core.keys.tags` chooses, whatever has happened before."""

from __future__ import annotations

import json
import math
import random
from collections import defaultdict, deque
from collections.abc import Iterator
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kombu import Connection

from celery_fair.brokers.keyed.lists import KeyedLists
from celery_fair.brokers.redis import Commands
from celery_fair.core.keys.fair_key import read_key
from celery_fair.core.keys.tags import Served, TenantTags, Turn
from celery_fair.settings.keys import KeyedQueue
from tests.brokers import Space
from tests.publishing import publish

WEIGHTS = {"b": 5.0, "c": 0.001}
KEYS = ("a", "b", "c", "d", "d/1", "d/2", "e%2F/x y", "é", "", None, 12, 1.5, [], "x" * 300)
CHARGE = 1.3

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.sampled_from(KEYS), st.integers(1, 4)),
        st.tuples(st.just("publish"), st.sampled_from("ab"), st.integers(1, 2)),
        st.tuples(st.just("pop"), st.integers(1, 6)),
        st.tuples(st.just("pop"), st.integers(1, 6)),
        st.tuples(st.just("settle"), st.integers(0, 50), st.floats(-1.3, 20.0)),
        st.tuples(st.just("settle"), st.integers(0, 3), st.just(-CHARGE) | st.floats(-1.3, 1.3)),
        st.tuples(st.just("delete"), st.sampled_from(("a", "d/1"))),
        st.tuples(st.just("pause"), st.sampled_from("ad")),
        st.tuples(st.just("resume"), st.sampled_from("ad")),
    ),
    max_size=60,
)


def id_of(raw: bytes) -> str:
    try:
        return str(json.loads(raw)["headers"]["id"])
    except (ValueError, TypeError, KeyError):
        return ""


class Server:
    """A keyed queue on Redis."""

    def __init__(self, connection: Connection, url: str) -> None:
        self._url = url
        channel = connection.channel()
        self.send = Commands(channel)
        keys = {tenant: {"weight": weight} for tenant, weight in WEIGHTS.items()}
        keyed = KeyedQueue("jobs", keys=keys)
        self.drawn = 0.0
        self.lists = KeyedLists(channel, self.send, keyed, lambda: self.drawn)
        self._numbers = count()

    def begin(self) -> None:
        self.send("FLUSHDB")
        self.lists.weigh()

    def publish(self, key: object, messages: int) -> list[str]:
        return publish(self._url, {"jobs": messages}, headers={"x-fair-key": key}).all()

    def pop(
        self, wanted: int, drawn: float, settled: list[tuple[Turn, float]]
    ) -> tuple[int, list[tuple[str, Turn]]]:
        self.drawn = drawn
        prefix = f"t{next(self._numbers)}."
        waiting, unsorted, taken = self.lists.pop(wanted, CHARGE, prefix, settled)
        turns = [(raw, *(each.decode() for each in turn)) for raw, *turn in taken]
        return waiting + unsorted, [(id_of(raw), Turn(*turn[:4], CHARGE)) for raw, *turn in turns]

    def pause(self, tenant: str, paused: bool) -> None:
        self.lists.pause(tenant, paused)

    def push(self, raw: str) -> None:
        self.send("LPUSH", "jobs", raw)

    def delete(self, key: str) -> None:
        tenant, part = read_key(key)
        self.send("DEL", f"celery-fair:keys:jobs:lane:{tenant}/{part}")

    @property
    def keys(self) -> set[str]:
        """Those that are kept; who was served in this minute is forgotten by itself."""
        keys = {key.decode() for key in self.send("KEYS", "celery-fair:keys:*")}
        return {key for key in keys if ":top:" not in key}


class Model:
    """The same, of the class that says what is right."""

    def __init__(self) -> None:
        self._drawn = 0.0
        self._tags = TenantTags(lambda tenant: WEIGHTS.get(tenant, 1.0), self._draw)
        self.lanes: dict[tuple[str, str], deque[str]] = defaultdict(deque)
        self.paused: set[str] = set()
        self._held: set[str] = set()

    def pause(self, tenant: str, paused: bool) -> None:
        if paused:
            self.paused.add(tenant)
            return
        self.paused.discard(tenant)
        if tenant in self._held:
            self._held.remove(tenant)
            self._tags.tenants.release(tenant)

    def _draw(self) -> float:
        self._drawn = (self._drawn + 0.6180339887498949) % 1
        return 0.5 + self._drawn

    def publish(self, key: object, ids: list[str]) -> None:
        self.lanes[read_key(key)] += ids
        self._tags.arrive(*read_key(key))

    def pop(
        self, wanted: int, drawn: float, settled: list[tuple[Served, float]]
    ) -> list[tuple[str, Served]]:
        self._drawn = drawn
        for served, difference in settled:
            self._tags.settle(served, difference, unused=difference == -CHARGE)
        taken: list[tuple[str, Served]] = []
        while len(taken) < wanted and (found := self._tags.first()):
            lane = self.lanes[found]
            if lane and found[0] in self.paused:
                self._held.add(found[0])
                self._tags.tenants.hold(found[0])
            elif lane:
                task = lane.popleft()
                taken.append((task, self._tags.serve(*found, CHARGE, bool(lane))))
            else:
                self._tags.drop(*found)
        return taken


@pytest.fixture
def server(redis_space: Space) -> Iterator[Server]:
    with Connection(redis_space.url) as connection:
        yield Server(connection, redis_space.url)


def pause(server: Server, model: Model, tenant: str, paused: bool) -> None:
    server.pause(tenant, paused)
    model.pause(tenant, paused)


@given(steps=STEPS, chance=st.randoms(use_true_random=False))
@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_the_script_chooses_as_the_class_does(
    server: Server, steps: list[tuple[object, ...]], chance: random.Random
) -> None:
    server.begin()
    model = Model()
    running: list[tuple[Turn, Served]] = []
    settled: list[tuple[Turn, float]] = []
    also_settled: list[tuple[Served, float]] = []

    def pop(wanted: int, drawn: float) -> int:
        left, taken = server.pop(wanted, drawn, settled)
        expected = model.pop(wanted, drawn, also_settled)
        assert [task for task, _ in taken] == [task for task, _ in expected]
        for (_, turn), (_, served) in zip(taken, expected, strict=True):
            assert (turn.tenant, turn.part) == (served.tenant, served.part)
            assert (float(turn.finish), float(turn.part_finish)) == served[2:]
            running.append((turn, served))
        settled.clear()
        also_settled.clear()
        return left

    for step in steps:
        drawn = chance.random()
        match step:
            case ["publish", key, int(messages)]:
                model.publish(key, server.publish(key, messages))
            case ["pop", int(wanted)]:
                pop(wanted, drawn)
            case ["settle", int(number), float(difference)] if running:
                turn, served = running.pop(number % len(running))
                settled.append((turn, difference))
                also_settled.append((served, difference))
            case ["delete", str(key)]:
                pop(1, drawn)  # which sorts
                server.delete(key)
                model.lanes[read_key(key)].clear()
            case [str(what), str(tenant)]:
                pause(server, model, tenant, what == "pause")
    pause(server, model, "a", False)
    pause(server, model, "d", False)
    while pop(6, 0.5) or running:
        settled += [(turn, 0.5) for turn, _ in running]
        also_settled += [(served, 0.5) for _, served in running]
        running.clear()
    assert not any(model.lanes.values())
    left = {"celery-fair:keys:jobs", "celery-fair:keys:jobs:weights"}
    assert server.keys <= left


def test_what_is_settled_late_is_added_to_what_came_after(server: Server) -> None:
    """Of a key that has nothing left, and is ahead: its last finish tag, not its first."""
    server.begin()
    model = Model()
    for key, messages in (("a", 2), ("e", 9)):
        model.publish(key, server.publish(key, messages))
    taken = [(server.pop(1, 0.0, [])[1][0], model.pop(1, 0.0, [])[0]) for _ in range(4)]
    ours, theirs = zip(*taken, strict=True)
    assert [turn.tenant for _, turn in ours].count("a") == 2
    settled = [(next(turn for _, turn in ours if turn.tenant == "a"), 3.0)]
    also_settled = [(next(served for _, served in theirs if served.tenant == "a"), 3.0)]
    server.pop(0, 0.0, settled)
    model.pop(0, 0.0, also_settled)
    model.publish("a", server.publish("a", 1))
    found, expected = server.pop(8, 0.0, [])[1], model.pop(8, 0.0, [])
    assert [task for task, _ in found] == [task for task, _ in expected]


def test_who_comes_after_a_message_of_a_key_that_weighs_little(server: Server) -> None:
    server.begin()
    for key, messages in (("a", 9), ("c", 1)):
        server.publish(key, messages)
    taken = server.pop(2, 0.0, [])[1]
    server.publish("d", 1)
    taken += server.pop(2, 0.0, [])[1]
    tenants = [turn.tenant for _, turn in taken]
    assert tenants[:2] == ["a", "c"]
    assert "d" in tenants


def test_a_list_that_somebody_deletes_is_passed_over(server: Server) -> None:
    server.begin()
    for key in ("a", "b/1", "b/2", "c"):
        server.publish(key, 3)
    assert server.pop(0, 0.5, [])[0] == 12
    assert server.pop(1, 0.5, [])[0] == 11
    for key in ("a", "b/1"):
        server.delete(key)
    left, taken = server.pop(20, 0.5, [])
    assert [turn.tenant + turn.part for _, turn in taken].count("b2") == 3
    assert len(taken) == 6
    assert left == 0


def test_what_is_unreadable_is_nobodys(server: Server) -> None:
    server.begin()
    for raw in ("no json", "[]", "{}", '{"headers": 5}', '{"headers": {"x-fair-key": "a"}}'):
        server.push(raw)
    _, taken = server.pop(10, 0.5, [])
    assert sorted(turn.tenant for _, turn in taken) == ["", "", "", "", "a"]


def test_lists_that_no_tag_is_kept_of_are_found(server: Server) -> None:
    """After a fail-over that has lost the last writes, say."""
    server.begin()
    keys = ["a", "b/1", "b/2", "", "x*[y]", "celery-fair:keys:jobs:lane:z"]
    ids = [task for key in keys for task in server.publish(key, 2)]
    server.pop(1, 0.5, [])
    lost = ("tags", "finish", "only", "fresh", "parts:b")
    server.send("DEL", *(f"celery-fair:keys:jobs:{name}" for name in lost))
    assert server.pop(1, 0.5, [])[1] == []
    cursor: int | None = 0
    while cursor is not None:
        cursor = server.lists.adopt(cursor)
    _, taken = server.pop(20, 0.5, [])
    assert len(taken) == len(ids) - 1
    assert {task for task, _ in taken} < set(ids)


def test_what_was_sorted_can_be_put_back(server: Server) -> None:
    """All of it, each key's in its order: the way out."""
    server.begin()
    ids = {key: server.publish(key, 300) for key in ("a", "b/1", "b/2", "")}
    server.lists.sort(until=math.inf)
    assert server.send("LLEN", "jobs") == 0
    while server.lists.merge():
        pass
    raws = server.send("LRANGE", "jobs", 0, -1)[::-1]
    assert server.keys <= {"celery-fair:keys:jobs", "celery-fair:keys:jobs:weights"}
    order = [id_of(raw) for raw in raws]
    assert len(order) == 1200
    for mine in ids.values():
        assert [task for task in order if task in set(mine)] == mine
