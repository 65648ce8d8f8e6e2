"""Which queue a priority goes to, and which levels are none."""

from __future__ import annotations

from collections import OrderedDict
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_fair.core.levels import HIGHEST, check_levels

TWO = {"slow": [0, 4], "fast": [5, 9]}
THREE = {"high": (7, 9), "low": (0, 2), "middle": (3, 6)}
TEN = {f"p{priority}": [priority, priority] for priority in range(10)}

# The first priorities of all levels but the lowest.
CUTS = st.sets(st.integers(1, HIGHEST)).map(sorted)

BAD: dict[str, tuple[Any, str]] = {
    "overlapping": ({"a": [0, 5], "b": [5, 9]}, "priority 5 of 'b' is in another level too"),
    "within another": ({"a": [0, 9], "b": [3, 4]}, "priority 3 of 'b' is in another level too"),
    "the same twice": ({"a": [0, 9], "b": [0, 9]}, "priority 0 of 'b' is in another level too"),
    "of names that do not compare": ({"a": [0, 9], 5: [0, 9]}, "of 5 is in another level too"),
    "without a lowest": ({"a": [1, 9]}, "no level has priority 0; the next, 'a', starts at 1"),
    "with a gap": ({"a": [0, 3], "b": [5, 9]}, "no level has priority 4; the next, 'b'"),
    "without a highest": ({"a": [0, 8]}, "no level has priority 9; levels must reach up to 9"),
    "below zero": ({"a": [-1, 9]}, "the range of 'a' must be [lowest, highest] within 0 to 9"),
    "above nine": ({"a": [0, 10]}, "within 0 to 9, not [0, 10]"),
    "turned around": ({"a": [9, 0]}, "within 0 to 9, not [9, 0]"),
    "of one bound": ({"a": [9]}, "within 0 to 9, not [9]"),
    "of three bounds": ({"a": [0, 4, 9]}, "within 0 to 9, not [0, 4, 9]"),
    "a number": ({"a": 9}, "the range of 'a'"),
    "a text": ({"a": "09"}, "the range of 'a' must be [lowest, highest] within 0 to 9, not '09'"),
    "a set, which has no order": ({"a": {0, 9}}, "the range of 'a'"),
    "of fractions": ({"a": [0, 9.0]}, "the range of 'a'"),
    "of truth": ({"a": [False, 9]}, "the range of 'a'"),
    "of nothing": ({"a": None}, "the range of 'a'"),
    "none": ({}, "levels must map queue names to [lowest, highest], not {}"),
    "a list": ([["a", 0, 9]], "levels must map queue names to [lowest, highest], not [["),
    "missing": (None, "levels must map queue names to [lowest, highest], not None"),
}


@pytest.mark.parametrize(
    ("levels", "queues"),
    [
        (TWO, ["slow"] * 5 + ["fast"] * 5),
        (THREE, ["low"] * 3 + ["middle"] * 4 + ["high"] * 3),
        (TEN, list(TEN)),
        ({"only": [0, 9]}, ["only"] * 10),
        (OrderedDict(TWO), ["slow"] * 5 + ["fast"] * 5),
    ],
    ids=["two", "three", "ten", "one", "another mapping"],
)
def test_every_priority_has_its_queue(levels: Any, queues: list[str]) -> None:
    checked = check_levels(levels)
    assert [checked.queue(priority) for priority in range(10)] == queues


@given(CUTS, st.randoms(use_true_random=False))
def test_any_partition_is_taken_as_it_is(cuts: list[int], random: Any) -> None:
    ranges = [(low, high - 1) for low, high in pairwise([0, *cuts, HIGHEST + 1])]
    named = [(f"q{low}", (low, high)) for low, high in ranges]
    random.shuffle(named)
    levels = check_levels(dict(named))

    assert levels.queues == tuple(f"q{low}" for low, _ in ranges)
    for name, (low, high) in named:
        assert [p for p in range(10) if levels.queue(p) == name] == list(range(low, high + 1))
        assert levels.lowest(name) == low


@pytest.mark.parametrize(
    ("priority", "nearest"),
    [(None, 0), (-1, 0), (-(10**30), 0), (10, 9), (255, 9), (10**30, 9)],
)
def test_what_is_out_of_range_counts_as_the_nearest(priority: int | None, nearest: int) -> None:
    levels = check_levels(TEN)
    assert levels.queue(priority) == levels.queue(nearest)


@pytest.mark.parametrize(("levels", "why"), BAD.values(), ids=BAD)
def test_ranges_that_are_no_levels(levels: Any, why: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - compared below, brackets and all
        check_levels(levels)
    assert why in str(refused.value)
