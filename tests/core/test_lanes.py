"""What is known of a queue's lanes (see `celery_fair.core.keys.lanes`)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from celery_fair.core.keys.lanes import Key, KnownLanes, is_nobodys, nobody_in


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from("ab"), st.booleans()), max_size=50))
def test_whose_lanes_are(steps: list[tuple[int, str, bool]]) -> None:
    known, owners = KnownLanes(), dict[int, Key]()
    for number, tenant, lost in steps:
        key = (tenant, str(number % 2))
        before = owners.pop(number, None)
        gone = known.lost(number)
        assert gone == (None if before in owners.values() else before)
        if not lost:
            known.belongs(number, key)
            owners[number] = key
    assert known.owners() == [(number, *key) for number, key in owners.items()]
    for tenant in "ab":
        lanes = {number for number, key in owners.items() if key[0] == tenant}
        assert known.lanes_of(tenant) == lanes
    for key in set(owners.values()):
        assert key in known
        assert owners[known.first_of(key) or 0] == key


def test_a_lane_of_several_tenants_is_shared_until_it_is_empty() -> None:
    known = KnownLanes()
    for key in (("a", "1"), ("a", "2")):
        known.belongs(0, key)
        known.lost(0)
    assert not known.is_shared(0)
    known.belongs(0, ("b", ""))
    assert known.is_shared(0)
    known.empty(0)
    assert not known.is_shared(0)
    assert known.first_of(("b", "")) is None


def test_nobodys_lanes_are_no_tenants() -> None:
    known = KnownLanes()
    known.belongs(3, nobody_in(3))
    assert known.owners() == []
    assert is_nobodys(nobody_in(3)[0])
    assert not is_nobodys("\0")
    assert known.empty(3) == nobody_in(3)
    assert known.lost(3) is None
