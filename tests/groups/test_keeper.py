"""Members that are threads of one process: what is news to them, and many of them at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from threading import Event

import pytest

from celery_fair.core.groups.membership import Group, Terms, turn
from celery_fair.groups import GroupStore, Snapshot, StoreUnreachableError
from celery_fair.groups.document import decoded, encoded
from celery_fair.groups.keeper import Keeper, PartitionsDifferError, Taken, Trouble
from celery_fair.groups.redis_store import RedisStore
from tests.brokers import Space
from tests.groups.memory_store import MemoryStore
from tests.patience import wait_long_for_answers
from tests.waiting import wait_for

PARTITIONS = [f"customers.{number}" for number in range(60)]


class Member:
    """A worker without tasks, and with the default times."""

    def __init__(
        self,
        store: GroupStore,
        name: str,
        partitions: list[str] = PARTITIONS,
        lease: float = 60.0,
        recovery: float = 30.0,
    ) -> None:
        self.keeper = Keeper(store, "g", partitions, name, Terms(lease), recovery)
        self.owned: frozenset[str] = frozenset()
        self.keeper.start()

    def takes_up(self) -> bool:
        """Whether it owns something, whatever went wrong before."""
        return any(isinstance(n, Taken) and n.turn.granted for n in self.keeper.news())

    def look(self) -> int:
        """Take up the news; return how many partitions it has then."""
        for news in self.keeper.news():
            assert isinstance(news, Taken), news
            self.owned = frozenset(news.turn.granted)
        self.keeper.holds(self.owned)
        return len(self.owned)


class DistantStore(RedisStore):
    """Its answer takes a while, and others may write meanwhile."""

    def read(self, group: str) -> Snapshot:
        snapshot = super().read(group)
        Event().wait(0.01)
        return snapshot


@pytest.fixture
def store(redis_space: Space, monkeypatch: pytest.MonkeyPatch) -> Iterator[GroupStore]:
    """With a client that a slow server does not make give up: others' writings alone may."""
    wait_long_for_answers(monkeypatch)
    made = DistantStore(redis_space.url)
    yield made
    made.close()


def wait_counts(expected: list[int], *members: Member) -> None:
    wait_for(
        lambda: sorted(member.look() for member in members) == expected,
        60,
        lambda: f"{expected}, not {[len(member.owned) for member in members]}",
        interval=0.05,
    )


def test_a_revocation_does_not_wait_for_the_heartbeat(store: GroupStore) -> None:
    with ExitStack() as stack:
        a = Member(store, "a")
        stack.callback(a.keeper.leave)
        wait_counts([60], a)
        b = Member(store, "b")
        stack.callback(b.keeper.leave)
        wait_counts([30, 30], a, b)


def test_without_a_broker_others_get_what_is_theirs(store: GroupStore) -> None:
    """What still runs excepted; and consumes nothing before it knows what is left."""
    with ExitStack() as stack:
        a = Member(store, "a")
        stack.callback(a.keeper.leave)
        wait_counts([60], a)
        running = {PARTITIONS[0], PARTITIONS[59]}
        a.keeper.consumes_nothing(lambda name: name in running)
        b = Member(store, "b")
        stack.callback(b.keeper.leave)
        wait_counts([29], b)
        assert len(b.owned & running) == 0
        running.clear()
        wait_counts([30], b)
        wait_for(a.keeper.is_back, 20, "what is given up to be told")
        wait_counts([30, 30], a, b)
        assert not a.owned & b.owned


class SlowStore(MemoryStore):
    """Keeps who writes waiting while a test wants that."""

    def __init__(self) -> None:
        super().__init__()
        self.writes, self.goes_on = Event(), Event()
        self.goes_on.set()

    def write(self, group: str, version: int, text: str) -> bool:
        self.writes.set()
        assert self.goes_on.wait(60)
        return super().write(group, version, text)


def test_who_consumes_again_waits_for_what_is_being_given_up() -> None:
    store = SlowStore()
    with ExitStack() as stack:
        a = Member(store, "a", lease=2)
        stack.callback(a.keeper.leave)
        wait_counts([60], a)
        assert a.keeper.is_back()
        a.keeper.consumes_nothing(lambda name: False)
        store.goes_on.clear()
        store.writes.clear()
        assert store.writes.wait(20)
        assert not a.keeper.is_back()
        store.goes_on.set()
        wait_for(a.keeper.is_back, 20, "the turn to end")


class Hiccup(MemoryStore):
    """Cannot be reached once, when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.away = 0

    def read(self, group: str) -> Snapshot:
        if self.away:
            self.away -= 1
            raise StoreUnreachableError("away")
        return super().read(group)


@pytest.mark.parametrize(("away", "left"), [(3, True), (10**9, False)])
def test_who_leaves_tries_again_for_a_while(
    away: int, left: bool, caplog: pytest.LogCaptureFixture
) -> None:
    store = Hiccup()
    a = Member(store, "a", lease=6)
    wait_counts([60], a)
    a.keeper._stop.set()
    a.keeper._soon.set()
    a.keeper._thread.join()
    store.away = away
    a.keeper.leave()
    assert ("could not be told" in caplog.text) is not left
    store.away = 0
    assert ("a" not in decoded(store.read("g").text).members) is left


def test_many_start_at_once(store: GroupStore) -> None:
    """None gives up because others write all the time."""
    with ExitStack() as stack:
        members = [Member(store, f"m{number:02}") for number in range(30)]
        for member in members:
            stack.callback(member.keeper.leave)
        wait_counts([2] * 30, *members)


def test_partitions_differ() -> None:
    """Who has others takes no part."""
    store = MemoryStore()
    with ExitStack() as stack:
        a = Member(store, "a")
        wait_counts([60], a)
        b = Member(store, "b", PARTITIONS[:-1])
        stack.callback(b.keeper.leave)
        (trouble,) = wait_for(b.keeper.news, 20, "trouble")
        assert isinstance(trouble, Trouble)
        assert isinstance(trouble.error, PartitionsDifferError)
        assert decoded(store.read("g").text).members.keys() == {"a"}
        a.keeper.leave()


def test_partitions_differ_from_those_of_the_dead() -> None:
    """Whose leases have run out, and who cannot take themselves out."""
    store = MemoryStore()
    now = store.read("g").now
    dead = turn(Group().of(frozenset(PARTITIONS)), "dead", now, Terms(0.5)).group
    assert store.write("g", 0, encoded(dead))
    with ExitStack() as stack:
        a = Member(store, "a", PARTITIONS[:-1], lease=2.4, recovery=0.1)
        stack.callback(a.keeper.leave)
        wait_for(a.takes_up, 20, "the dead one's partitions")
        assert decoded(store.read("g").text).members.keys() == {"a"}


class SteppingStore(MemoryStore):
    """Its clock is put forward when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead = 0.0

    def step(self, seconds: float) -> None:
        self.ahead += seconds

    def read(self, group: str) -> Snapshot:
        version, text, now = super().read(group)
        return Snapshot(version, text, now + self.ahead)


def grants_of(store: GroupStore, member: str) -> dict[str, int]:
    return decoded(store.read("g").text).owned_by(member)


def all_renewed(store: GroupStore, *members: str) -> bool:
    _, text, now = store.read("g")
    ends = decoded(text).members
    return all(ends.get(member, now) - now > Terms().heartbeat for member in members)


@pytest.mark.parametrize("seconds", [40, 3600])
def test_a_step_of_the_clock_ends_no_lease(seconds: float) -> None:
    """Nor one that ended soon after it, before its member renewed it by its own clock."""
    store = SteppingStore()
    with ExitStack() as stack:
        members = [Member(store, name) for name in "ab"]
        for member in members:
            stack.callback(member.keeper.leave)
        wait_counts([30, 30], *members)
        before = [grants_of(store, name) for name in "ab"]
        store.step(seconds)

        wait_for(lambda: all_renewed(store, "a", "b"), 20, "both leases")
        assert [grants_of(store, name) for name in "ab"] == before


def test_nor_does_one_who_comes_after_the_step() -> None:
    store = SteppingStore()
    with ExitStack() as stack:
        a = Member(store, "a")
        stack.callback(a.keeper.leave)
        wait_counts([60], a)
        before = grants_of(store, "a")
        store.step(3600)
        b = Member(store, "b")
        stack.callback(b.keeper.leave)

        wait_counts([30, 30], a, b)
        kept = grants_of(store, "a")
        assert kept.items() <= before.items()


def test_one_who_is_dead_loses_its_partitions_after_a_step_too() -> None:
    store = SteppingStore()
    group = turn(Group().of(frozenset(PARTITIONS)), "dead", store.read("g").now, Terms(60)).group
    assert store.write("g", 0, encoded(group))
    store.step(3600)
    with ExitStack() as stack:
        a = Member(store, "a", lease=12)
        stack.callback(a.keeper.leave)
        wait_counts([60], a)
