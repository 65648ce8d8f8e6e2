"""Which keys come most often, of more than are counted."""

from __future__ import annotations

from collections import Counter

from hypothesis import example, given
from hypothesis import strategies as st

from celery_fair.core.keys.sketch import OTHER, RecentKeys, SpaceSaving, TopKeys

KEYS = st.lists(st.sampled_from([f"k{n}" for n in range(12)] + ["a", "a", "b"] * 3), max_size=300)


def counted(sketch: SpaceSaving, key: str) -> tuple[int, int]:
    """Return a key's count and its error; nothing, if it has none."""
    return sketch._counts.get(key, 0), sketch._errors.get(key, 0)


@example(["a", "a", "b", "c"], 2)
@given(KEYS, st.integers(1, 6))
def test_counts_are_too_large_by_their_errors_at_the_most(keys: list[str], capacity: int) -> None:
    sketch = SpaceSaving(capacity)
    for key in keys:
        sketch.add(key)
    true = Counter(keys)
    assert sum(counted(sketch, key)[0] for key in true) == len(keys)  # whatever was taken over
    for key, times in true.items():
        count, error = counted(sketch, key)
        if count or times > len(keys) / capacity:
            assert count - error <= times <= count


@given(KEYS)
def test_the_first_are_those_that_came_most(keys: list[str]) -> None:
    sketch = SpaceSaving(50)
    for key in keys:
        sketch.add(key)
    true = Counter(keys)
    assert [true[key] for key in sketch.top(3)] == sorted(true.values(), reverse=True)[:3]
    assert len(sketch.top(100)) == len(true)


@given(KEYS, st.integers(1, 4), st.floats(0.1, 50))
def test_no_total_is_lost_and_few_have_figures(keys: list[str], most: int, period: float) -> None:
    top = TopKeys(most, period)
    for now, key in enumerate(keys):
        top.add(key, float(now))
        totals = top.totals
        assert sum(totals.values()) == now + 1
        assert len(totals.keys() - {OTHER}) <= most
        assert totals[top.label(key)] > 0


def test_who_comes_most_has_figures_after_a_period() -> None:
    top = TopKeys(2, period=10)
    for number in range(5):
        top.add(f"once{number}", 0)
    assert top.totals == {"once0": 1, "once1": 1, OTHER: 3}
    for _ in range(4):
        top.add("acme", 1)
    assert top.label("acme") == OTHER
    top.add("late", 10)
    assert top.label("acme") == "acme"
    assert top.totals["acme"] == 0  # from now on
    assert len(top.totals) == 3
    top.add("acme", 11)
    assert top.totals["acme"] == 1
    assert sum(top.totals.values()) == 11


def test_a_key_for_each_message_is_named_for_few() -> None:
    most, named = 3, set[str]()
    top = TopKeys(most, period=600)
    for number in range(10_000):
        top.add(str(number), number * 0.36)  # an hour
        named |= top.totals.keys()
    assert len(named - {OTHER}) <= 6 * most
    assert sum(top.totals.values()) == 10_000


def test_a_key_of_that_name_is_one_of_the_others() -> None:
    top = TopKeys(1, period=10)
    top.add(OTHER, 0)
    top.add("a", 0)
    assert top.totals == {OTHER: 1, "a": 1}


def test_who_came_in_this_minute_and_the_one_before() -> None:
    recent = RecentKeys(2)
    for key, now in (("old", 30), ("a", 70), ("a", 80), ("b", 125), ("a", 130)):
        recent.add(key, now)
    assert recent.counts(179) == {"a": 3, "b": 1}
    assert recent.counts(180) == {"a": 1, "b": 1}
    assert recent.counts(300) == {}  # nobody came for a minute and more
    for key in "abc":
        recent.add(key, 301)
    assert sorted(recent.counts(302).values()) == [1, 1]  # who was taken over from is forgotten
