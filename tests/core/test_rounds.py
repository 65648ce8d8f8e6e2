"""Looking at many, so many a second."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from celery_fair.core.keys.lanes import Rounds

RATE = 64


@given(
    count=st.integers(1, 300),
    gaps=st.lists(st.floats(0, 3), min_size=1, max_size=60),
)
def test_each_is_looked_at_in_time_however_late_one_asks(count: int, gaps: list[float]) -> None:
    rounds, now = Rounds(RATE, 0.0), 0.0
    looked = dict.fromkeys(range(count), 0.0)
    for gap in gaps:
        now += gap
        due = rounds.due(count, now)
        assert len(set(due)) == len(due)
        looked |= dict.fromkeys(due, now)
        assert now - min(looked.values()) <= (count + 1) / RATE + max(gaps)


@given(count=st.integers(0, 300), gaps=st.lists(st.floats(0, 3), max_size=60))
def test_no_more_are_looked_at_than_so_many_a_second(count: int, gaps: list[float]) -> None:
    rounds, now, looks = Rounds(RATE, 0.0), 0.0, 0
    for gap in gaps:
        now += gap
        looks += len(rounds.due(count, now))
        assert looks <= RATE * now + 1e-6


def test_they_are_looked_at_in_turns() -> None:
    rounds = Rounds(2, 0.0)
    assert [rounds.due(3, now) for now in (0.4, 1.0, 2.0, 9.0)] == [[], [0, 1], [2, 0], [1, 2, 0]]


def test_there_may_be_more_by_then_or_none() -> None:
    rounds = Rounds(1, 0.0)
    assert rounds.due(0, 5.0) == []
    assert rounds.due(2, 6.0) == [0]
    assert rounds.due(4, 9.0) == [1, 2, 3]
