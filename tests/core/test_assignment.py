"""Balanced, sticky, the same for everybody; and keys stay where they are."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_fair.core.groups.assignment import assign, key_text, partition_of

names = st.sets(st.text("abcdefgh", min_size=1, max_size=3), max_size=8)
partitions = st.sets(st.integers(0, 40).map("p{:02}".format), max_size=30)


@given(names, partitions, st.data())
def test_laws(members: set[str], wanted: set[str], data: st.DataObject) -> None:
    others = sorted(members | {"gone"})
    before = {p: data.draw(st.sampled_from(others)) for p in sorted(wanted | {"old"})}
    plan = assign(members, wanted, before)
    assert plan == assign(sorted(members, reverse=True), sorted(wanted), before)
    if not members:
        assert plan == {}
        return
    assert plan.keys() == wanted
    counts = Counter(dict.fromkeys(members, 0)) + Counter(plan.values())
    counts.update(dict.fromkeys(members, 0))
    assert counts.keys() <= members
    assert max(counts.values()) - min(counts.values()) <= 1
    kept = sum(before[p] == plan[p] for p in wanted)
    assert kept == most_that_can_stay(members, wanted, before)


def most_that_can_stay(members: set[str], wanted: set[str], before: dict[str, str]) -> int:
    """Whichever members get one more: those who use it best."""
    has = Counter(before[p] for p in wanted if before[p] in members)
    least, more = divmod(len(wanted), len(members))
    gains = sorted((min(has[m], least + 1) - min(has[m], least) for m in members), reverse=True)
    return sum(min(has[m], least) for m in members) + sum(gains[:more])


@pytest.mark.parametrize(
    ("members", "expected"),
    [("a", [6]), ("ab", [3, 3]), ("abc", [2, 2, 2]), ("abcdefgh", [0, 0, 1, 1, 1, 1, 1, 1])],
)
def test_counts(members: str, expected: list[int]) -> None:
    plan = assign(members, "123456", {})
    assert sorted(list(plan.values()).count(m) for m in members) == expected


def test_spare_member_moves_nothing() -> None:
    plan = assign("ab", "12", {})
    assert assign("Aab", "12", plan) == plan
    assert assign("abz", "12", plan) == plan == assign("ab", "12", {**plan, "9": "z"})


def test_keys_stay_where_they_are() -> None:
    """As published by a version before: these numbers must not change, ever."""
    keys = [42, "42", b"42", "Ökonom", -7, 0, "x" * 65536]
    assert [partition_of(key, 16) for key in keys] == KNOWN
    assert partition_of("a", 1) == 0


KNOWN = [10, 10, 10, 11, 8, 5, 6]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (42, "42"),
        ("42", "42"),
        (b"42", "42"),
        ("Ökonom", "Ökonom"),
        ("x" * 255, "x" * 255),
        ("x" * 256, "0b2c2b0de02938ad7a728b51e8da3357"),
        (b"\xff", "6da6440737d89ae8dded8ee4a1259bdd"),
        ("\ud800", "b4fe3de0239399efbfffc79686f435f9"),
    ],
)
def test_routing_keys_stay_what_they_are(key: int | str | bytes, expected: str) -> None:
    """As published by a version before: they must not change either."""
    assert key_text(key) == expected


@pytest.mark.parametrize("key", [None, True, "", "x" * 65537])
def test_key_text_no_key(key: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="a partition key must"):
        key_text(key)


def test_keys_are_spread() -> None:
    counts = Counter(partition_of(number, 16) for number in range(16_000))
    assert len(counts) == 16
    assert all(850 < count < 1150 for count in counts.values())


@pytest.mark.parametrize("key", [None, 1.5, True, ("a",), ["a"]])
def test_key_of_another_type(key: object) -> None:
    with pytest.raises(TypeError, match="must be an integer, a text or bytes"):
        partition_of(key, 4)  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ["", b"", "x" * 65537])
def test_key_of_another_size(key: str | bytes) -> None:
    with pytest.raises(ValueError, match="must have 1 to 65536 bytes"):
        partition_of(key, 4)
