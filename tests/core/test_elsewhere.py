"""Workers with tags of their own that tell each other what they serve (`core.keys.elsewhere`)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_fair.core.keys.elsewhere import Elsewhere
from celery_fair.core.keys.tags import Tags
from tests.core.test_tags import entries


def alike(_: str) -> float:
    return 1.0


class One:
    """A worker, whose keys have something waiting since the report before."""

    def __init__(self, *keys: str) -> None:
        self.tags = Tags(alike, lambda: 1.0)
        self.elsewhere = Elsewhere(self.tags)
        for key in keys:
            self.tags.arrive(key)
        self.elsewhere.reported({})

    def serves(self, count: int) -> list[str]:
        order = []
        for _ in range(count):
            key = self.tags.first()
            assert key is not None
            self.tags.serve(key, 1.0, True)
            self.elsewhere.served(1.0)
            order.append(key)
        return order


def test_a_key_that_had_more_elsewhere_waits_here() -> None:
    one = One("a", "b")
    one.elsewhere.reported({"a": 3.0})  # nothing was served here, which takes all of it
    assert one.elsewhere.outstanding == {}
    assert one.serves(5) == ["b", "b", "b", "a", "b"]


def test_who_serves_as_well_takes_a_part_at_a_time() -> None:
    one = One("a", "b")
    assert one.serves(2) == ["a", "b"]
    one.elsewhere.reported({"a": 2.0})
    assert one.elsewhere.outstanding == {"a": pytest.approx(2 * (1 - 0.25 / 2))}
    assert one.tags.tag("a") == pytest.approx(1 + 2 * 0.25 / 2)


def test_what_all_had_sets_nobody_back() -> None:
    one = One("a", "b")
    one.elsewhere.reported({"a": 7.0, "b": 5.0})
    assert (one.tags.tag("a"), one.tags.tag("b")) == (2.0, 0.0)
    one.tags.arrive("new")
    assert one.tags.tag("new") == one.tags.virtual == 0.0


def test_who_has_nothing_here_begins_later() -> None:
    one = One("a")
    one.serves(1)
    one.elsewhere.reported({"quiet": 3.0, "a": 1.0})
    one.tags.arrive("quiet")
    assert one.tags.tag("quiet") == pytest.approx(one.tags.virtual + 2)


def test_where_nobody_waits_nobody_is_set_back() -> None:
    one = One("a")
    one.tags.hold("a")
    one.elsewhere.reported({"a": 1e6, "b": 1e6})
    one.elsewhere.reported({"a": 1e6, "c": 1e6})
    assert entries(one.tags) <= 3
    one.tags.arrive("b")
    assert one.tags.tag("b") == one.tags.virtual
    one.tags.drop("a")
    one.elsewhere.reported({})
    one.elsewhere.reported({})
    assert one.elsewhere.outstanding == {}


def test_who_had_more_before_and_has_nothing_here_is_not_set_back() -> None:
    one = One("a")
    one.elsewhere.reported({}, before={"quiet": 1e6, "a": 3.0})
    one.tags.arrive("quiet")
    assert one.tags.tag("quiet") == one.tags.virtual


def test_who_is_ahead_is_so_no_more_when_all_had_as_much() -> None:
    one = One("a", "b")
    one.serves(2)
    one.elsewhere.reported({"quiet": 5.0})
    one.elsewhere.reported({"a": 3.0, "b": 4.0})
    one.tags.arrive("quiet")
    assert one.tags.tag("quiet") == pytest.approx(one.tags.virtual + 5.0 - 3.0)


def test_what_stands_for_something_else_is_not_compared() -> None:
    tags = Tags(alike, lambda: 1.0)
    elsewhere = Elsewhere(tags, lambda key: key == "nobody")
    for key in ("a", "b", "nobody"):
        tags.arrive(key)
    elsewhere.reported({})
    elsewhere.reported({"a": 2.0, "b": 1.0})
    assert (tags.tag("a"), tags.tag("b")) == (1.0, 0.0)


def test_what_took_less_makes_nobody_hasty() -> None:
    """Who serves as well takes a part at a time, whatever the sums are."""
    one = One("a", "b")
    one.serves(2)
    one.elsewhere.settled(-2.0)
    one.elsewhere.reported({"a": 4.0, "b": -100.0})
    assert one.tags.tag("a") == pytest.approx(1.0)


def in_steps(
    workers: int, keys: set[str], comes: Mapping[int, str], goes: Mapping[int, str]
) -> list[Counter[str]]:
    """What was served between one report and the next: ten messages by each worker."""
    chance = random.Random(1)
    everybody = [Tags(alike, lambda: 0.5 + chance.random()) for _ in range(workers)]
    told = [Elsewhere(tags) for tags in everybody]
    for tags in everybody:
        for key in chance.sample(sorted(keys), len(keys)):
            tags.arrive(key)
    served = []
    for step in range(160):
        own: list[Counter[str]] = [Counter() for _ in everybody]
        for worker, tags in enumerate(everybody):
            if step in comes:
                tags.arrive(comes[step])
            if step in goes:
                tags.drop(goes[step])
            for _ in range(10):
                key = tags.first()
                assert key is not None
                tags.serve(key, 1.0, True)
                told[worker].served(1.0)
                own[worker][key] += 1
        served.append(sum(own, Counter()))
        for elsewhere, mine in zip(told, own, strict=True):
            elsewhere.reported(served[-1] - mine)
    return served


@pytest.mark.parametrize("workers", [8, 40])
def test_a_second_flood_has_its_half_at_once_and_no_more(workers: int) -> None:
    served = in_steps(workers, {"first"}, {60: "second"}, {})
    for step in served[60:]:
        assert step["second"] == pytest.approx(workers * 10 / 2, rel=0.1)


@pytest.mark.parametrize("workers", [8, 40])
def test_who_had_nothing_for_a_moment_is_not_set_back(workers: int) -> None:
    keys = {f"key{number}" for number in range(20)}
    served = in_steps(workers, keys, {63: "key3"}, {60: "key3"})
    fair = workers * 10 / 20
    for first in range(63, 150, 10):
        got = sum(step["key3"] for step in served[first : first + 10])
        assert got == pytest.approx(10 * fair, rel=0.25)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.floats(-5, 5), st.booleans()), max_size=40),
    st.booleans(),
)
def test_differences_count_in_the_end_and_nothing_is_kept(
    reports: list[tuple[str, float, bool]], serves: bool
) -> None:
    """Whatever was told: a tag is what was served here and there, but for what all had."""
    one = One(*"abc")
    total = dict.fromkeys("abc", 0.0)
    for key, cost, here in reports:
        if here and serves:
            one.tags.serve(key, 1.0, True)
            one.elsewhere.served(1.0)
            total[key] += 1.0
        total[key] += cost
        one.elsewhere.reported({key: cost})
    for _ in range(40):  # as long as nothing is served here
        one.elsewhere.reported({})
    assert one.elsewhere.outstanding == {}
    for one_key, other in (("a", "b"), ("b", "c")):
        tags = [one.tags.tag(key) or 0.0 for key in (one_key, other)]
        assert tags[0] - tags[1] == pytest.approx(total[one_key] - total[other], abs=1e-9)
