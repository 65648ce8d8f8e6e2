"""A group's turns: by cases, and by random trouble (see `group_world`)."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from celery_fair.core.groups.membership import (
    STOPS,
    Grant,
    Group,
    Terms,
    elsewhere,
    living,
    turn,
)
from celery_fair.core.groups.tenure import Tenure
from tests.core.group_world import TERMS, World, trouble


@pytest.mark.parametrize(("members", "partitions"), [(3, 6), (10, 5)])
def test_random_trouble(members: int, partitions: int) -> None:
    """Most of it is in tests/groups/test_simulation.py: measuring branches is slow."""
    trouble(members, partitions, 60)


numbers = st.integers(0, 20)


class Groups(RuleBasedStateMachine):
    """Invariant 1 is looked at after every second, the other when all is quiet at the end."""

    world: World

    @initialize(members=st.integers(1, 5), partitions=st.integers(1, 7), seed=st.integers(0, 9))
    def begin(self, members: int, partitions: int, seed: int) -> None:
        self.world = World(members, partitions, seed)

    @rule()
    def joins(self) -> None:
        self.world.join()

    @rule(number=numbers, warmly=st.booleans())
    def goes(self, number: int, warmly: bool) -> None:
        self.world.lose(number, warmly)

    @rule(number=numbers, seconds=st.floats(0, 2 * TERMS.lease))
    def stops(self, number: int, seconds: float) -> None:
        self.world.stop(number, seconds)

    @rule(number=numbers, seconds=st.floats(0, 2 * TERMS.lease))
    def naps(self, number: int, seconds: float) -> None:
        self.world.nap(number, seconds)

    @rule()
    def store_goes_or_comes(self) -> None:
        self.world.cut()

    @rule(number=numbers)
    def partition_is_added(self, number: int) -> None:
        self.world.add(number)

    @rule(number=numbers)
    def partition_is_removed(self, number: int) -> None:
        self.world.remove(number)

    @rule()
    def is_planned_anew(self) -> None:
        self.world.rebalance()

    @rule(seconds=st.integers(1, 8))
    def time_passes(self, seconds: int) -> None:
        for _ in range(seconds):
            self.world.step()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.settle()


test_groups = Groups.TestCase


def joined(*names: str, partitions: int = 6) -> Group:
    group = Group(active=frozenset(f"{n}" for n in range(partitions)))
    for _ in range(3):
        for name in names:
            holds = group.owned_by(name).keys() & {p for p, m in group.plan.items() if m == name}
            group = turn(group, name, 0.0, TERMS, holds).group
    return group


def test_traces_of_the_sources() -> None:
    """One worker has all; three have two each; one leaves: three each; and the last has all."""
    assert len(joined("a").owned_by("a")) == 6
    group = joined("a", "b", "c")
    assert [len(group.owned_by(name)) for name in "abc"] == [2, 2, 2]
    for leaver, rest in (("b", "ac"), ("a", "c")):
        before = group
        group = turn(group, leaver, 1.0, TERMS, leaving=True).group
        for name in rest:
            taken = turn(group, name, 1.0, TERMS, holds=group.owned_by(name))
            group = taken.group
            assert taken.revoked == frozenset()
            assert before.owned_by(name).items() <= group.owned_by(name).items()
        assert [len(group.owned_by(name)) for name in rest] == [6 // len(rest)] * len(rest)


@pytest.mark.parametrize("spare", ["0", "spare"], ids=["first by name", "last"])
def test_spare_members_change_nothing(spare: str) -> None:
    group = joined("a", "b", partitions=2)
    grants = group.grants
    for leaving in (False, True):
        group = turn(group, spare, 1.0, TERMS, leaving=leaving).group
        for name in "ab":
            taken = turn(group, name, 1.0, TERMS, holds=group.owned_by(name))
            assert taken.changed is False
            group = taken.group
    assert group.grants == grants


def test_owner_is_waited_for_and_token_grows() -> None:
    group = joined("a", partitions=2)
    assert group.grants["0"] == Grant("a", 1, 0.0)
    taken = turn(group.taking_out({"0", "unknown"}), "a", 1.0, TERMS, holds={"0", "1"})
    assert (taken.revoked, dict(taken.granted)) == ({"0"}, {"1": 1})
    taken = turn(taken.group, "a", 2.0, TERMS, holds={"1"})
    assert taken.group.grants["0"] == Grant(None, 1, 2.0)
    assert taken.group.plan == {"1": "a"}
    again = taken.group.putting_back({"0", "unknown"})
    assert turn(again, "a", 3.0, TERMS, holds={"1"}).granted == {"0": 3001, "1": 1}


def test_who_stops_keeps_what_it_has_and_takes_no_more() -> None:
    group = joined("a", "b", partitions=4)
    had = group.owned_by("a")
    group = turn(group, "a", 1.0, TERMS, holds=had, broker=STOPS).group
    assert set(group.plan.values()) == {"b"}
    assert turn(group, "b", 1.0, TERMS, holds=group.owned_by("b")).granted == group.owned_by("b")
    group = turn(group, "b", 1.0, TERMS, leaving=True).group
    taken = turn(group, "a", 1.5, TERMS, holds=had, broker=STOPS)
    assert (taken.granted, taken.revoked, taken.group.plan) == ({}, had.keys(), {})
    assert taken.group.owned_by("a") == had
    free = taken.group.active - had.keys()
    taken = turn(taken.group, "c", 2.0, TERMS)
    assert taken.granted.keys() == free
    group = turn(taken.group, "a", 2.0, TERMS, leaving=True).group
    assert turn(group, "c", 2.5, TERMS, holds=free).granted.keys() == group.active


def test_other_partitions() -> None:
    group = joined("a", partitions=2).taking_out({"0"}).of(frozenset("0123"))
    assert (group.active, group.out) == ({"1", "2", "3"}, {"0"})
    assert group.partitions == set("0123")
    assert group.of(frozenset("1")).out == frozenset()


def test_plan_as_if_all_had_just_come() -> None:
    group = joined("b", "a", partitions=4)
    assert group.owned_by("a") == {"2": 2, "3": 2}
    taken = turn(group.unplanned(), "a", 1.0, TERMS, holds={"2", "3"})
    assert taken.group.plan == {"0": "a", "1": "a", "2": "b", "3": "b"}
    assert (taken.revoked, taken.granted) == ({"2", "3"}, {})


def test_lease_that_has_run_out_is_lost() -> None:
    group = joined("a", partitions=1)
    new = int(TERMS.lease * 1000) + 1
    assert turn(group, "a", TERMS.lease, TERMS, holds={"0"}).granted == {"0": new}
    assert turn(group, "a", TERMS.lease - 0.1, TERMS, holds={"0"}).granted == {"0": 1}
    taken = turn(group, "b", TERMS.lease, TERMS)
    assert taken.granted == {"0": new}
    assert turn(taken.group, "a", TERMS.lease, TERMS, holds={"0"}).granted == {}


def test_lease_is_to_be_renewed_by_the_stores_clock() -> None:
    group = joined("a", partitions=1)
    until = TERMS.heartbeat
    assert not turn(group, "a", until - 0.1, TERMS, holds={"0"}).changed
    assert turn(group, "a", until, TERMS, holds={"0"}).changed


def test_group_that_was_lost() -> None:
    """The store has nothing: whoever comes first has all, with tokens that are greater."""
    group = joined("a", "b", partitions=2)
    empty = Group(active=group.active)
    taken = turn(empty, "a", 60.0, TERMS, holds=group.owned_by("a"))
    assert taken.granted.keys() == group.active
    assert all(taken.granted[name] > grant.token for name, grant in group.grants.items())
    assert turn(taken.group, "b", 60.5, TERMS, holds=group.owned_by("b")).granted == {}


def test_store_that_was_put_back() -> None:
    """To a time before the last grants: of those that come after, the tokens are greater."""
    saved = group = joined("a", partitions=1)
    for before, after, now in (("a", "b", 10.0), ("b", "c", 20.0)):
        group = turn(group, after, now, TERMS).group
        group = turn(group, before, now, TERMS, leaving=True).group
        group = turn(group, after, now, TERMS).group
    last = group.owned_by("c")["0"]
    assert turn(saved, "d", 61.0, TERMS).granted["0"] > last


def test_turn_that_comes_back_too_late() -> None:
    """The store took its time: by then the lease may be over."""
    tenure = Tenure(Terms(lease=12.0))
    taken = turn(Group(active=frozenset("0")), "a", 0.0, TERMS)
    assert tenure.took(taken, asked=0.0, now=11.0).assigned == {}
    assert tenure.took(taken, asked=1.0, now=11.0).assigned == {"0": 1}
    assert tenure.lapsed(11.9) == frozenset()
    assert tenure.lapsed(12.0) == {"0"}
    assert tenure.holds(23.9, lambda name: True) == {"0"}
    assert tenure.holds(24.0, lambda name: True) == frozenset()


def test_times_follow_from_the_lease() -> None:
    """The sources' defaults, in seconds; a renewal that fails is tried again in time."""
    usual = Terms()
    assert (usual.lease, usual.heartbeat, usual.margin, usual.patience) == (60, 25, 5, 60)
    brief = Terms(lease=6)
    assert (brief.heartbeat, brief.margin, brief.safe) == (2.5, 0.5, 5.5)


def test_another_token_is_another_grant() -> None:
    tenure = Tenure(TERMS)
    first = turn(Group(active=frozenset("0")), "a", 0.0, TERMS)
    tenure.took(first, 0.0, 0.0)
    lapsed = turn(first.group, "b", TERMS.lease, TERMS, leaving=True)
    again = turn(lapsed.group, "a", TERMS.lease, TERMS)
    change = tenure.took(again, 1.0, 1.0)
    assert (change.revoked, change.assigned) == ({"0"}, {"0": again.granted["0"]})


def test_on_another_broker() -> None:
    """Of a member that is there no more, or does not say, nothing is known."""
    group = Group().of(frozenset("p"))
    group = turn(group, "a", 0, TERMS, broker="one").group
    group = turn(group, "b", 0, TERMS).group
    group = turn(group, "c", 5, TERMS, broker="two").group
    assert group.brokers == {"a": "one", "c": "two"}
    assert elsewhere(group, "one", group.members) == {"c": "two"}
    assert elsewhere(group, "one", {"a", "b"}) == {}
    assert elsewhere(group, "", group.members) == {}
    assert elsewhere(group, STOPS, group.members) == {}
    stopping = turn(group, "c", 5, TERMS, broker=STOPS).group
    assert elsewhere(stopping, "one", group.members) == {}

    later = TERMS.lease + 1
    assert living(group, later) == {"c"}
    assert living(group, later, in_doubt=True) == {"a", "b", "c"}
    assert turn(group, "c", later, TERMS, broker="three").group.brokers == {"c": "three"}
