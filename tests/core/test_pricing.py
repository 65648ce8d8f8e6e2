"""Estimates of run times, against hand-computed ones."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_fair.core.pricing import MEMORY, PRIOR, Change, Estimator, Mean, Price, Pricing


def test_nothing_is_known() -> None:
    estimator = Estimator()
    assert estimator.estimate("a", None) is None
    assert estimator.estimate("a", "key") is None


def test_a_task_that_is_not_known_takes_what_all_take() -> None:
    estimator = Estimator()
    estimator.learn("a", None, 1.0)
    estimator.learn("b", None, 3.0)
    assert estimator.estimate("c", "key") == pytest.approx(2.0)
    assert estimator.estimate("a", None) == pytest.approx(1.0)


def test_a_key_is_shrunk_towards_its_task() -> None:
    estimator = Estimator()
    for _ in range(30):
        estimator.learn("a", "short", 1.0)
    for _ in range(10):
        estimator.learn("a", "long", 5.0)
    task = (30 * 1.0 + 10 * 5.0) / 40
    assert estimator.estimate("a", None) == pytest.approx(task)
    assert estimator.estimate("a", "short") == pytest.approx((30 + PRIOR * task) / (30 + PRIOR))
    assert estimator.estimate("a", "long") == pytest.approx((50 + PRIOR * task) / (10 + PRIOR))
    assert estimator.estimate("a", "new") == pytest.approx(task)


@given(st.lists(st.floats(0.001, 1000), min_size=1, max_size=MEMORY))
def test_mean_of_few_is_the_mean(values: list[float]) -> None:
    mean = Mean()
    for value in values:
        mean.add(value)
    assert mean.value == pytest.approx(sum(values) / len(values))


def test_mean_of_many_follows_a_change() -> None:
    mean = Mean()
    for value in [1.0] * 1000 + [2.0] * 5 * MEMORY:
        mean.add(value)
    assert mean.value == pytest.approx(2.0, abs=0.01)


def test_no_time_at_all_costs_something() -> None:
    estimator = Estimator()
    estimator.learn("a", None, 0.0)
    assert (estimator.estimate("a", None) or 0) > 0


def test_only_the_latest_are_remembered() -> None:
    estimator = Estimator(limit=2)
    for key in ("a", "b", "a", "c"):
        estimator.learn("task", key, 1.0)
    estimator.learn("task", "a", 100.0)
    known = [
        key for key in "abc" if estimator.estimate("task", key) != estimator.estimate("task", "")
    ]
    assert known == ["a", "c"]


def model(**tasks: tuple[float, float]) -> dict[str, Any]:
    return {
        "v": 1,
        "tasks": {name: {"mean": mean, "n": n} for name, (mean, n) in tasks.items()},
        "keys": {"a": {"x": {"mean": 7.0, "n": 1000}}},
    }


def test_a_model_takes_the_place_of_what_was_learned() -> None:
    estimator = Estimator()
    for task in ("a", "b"):
        estimator.learn(task, "x", 100.0)
    estimator.load(model(a=(2.0, 30), c=(4.0, 10)))
    assert estimator.estimate("a", None) == pytest.approx(2.0)
    assert estimator.estimate("b", None) == pytest.approx(100.0)
    assert estimator.estimate("a", "x") == pytest.approx(
        (MEMORY * 7 + PRIOR * 2) / (MEMORY + PRIOR)
    )
    assert estimator.overall.value == pytest.approx((30 * 2 + 10 * 4) / 40)


def test_an_empty_model_says_nothing() -> None:
    estimator = Estimator()
    estimator.load({"v": 1, "tasks": {}, "keys": {}})
    assert estimator.estimate("a", None) is None


@pytest.mark.parametrize(
    "broken",
    [
        {},
        [],
        None,
        {"v": 2, "tasks": {}, "keys": {}},
        {"v": 1, "tasks": [], "keys": {}},
        {"v": 1, "tasks": {"a": 1}, "keys": {}},
        {"v": 1, "tasks": {"a": {"mean": 1}}, "keys": {}},
        {"v": 1, "tasks": {"a": {"mean": 0, "n": 1}}, "keys": {}},
        {"v": 1, "tasks": {"a": {"mean": float("nan"), "n": 1}}, "keys": {}},
        {"v": 1, "tasks": {"a": {"mean": 1, "n": 0}}, "keys": {}},
        {"v": 1, "tasks": {"a": {"mean": "much", "n": 1}}, "keys": {}},
        {"v": 1, "tasks": {}, "keys": {"a": 1}},
    ],
    ids=repr,
)
def test_what_is_no_model(broken: Any) -> None:
    estimator = Estimator()
    with pytest.raises(ValueError, match=r"not a cost model|could not convert"):
        estimator.load(broken)
    assert estimator.estimate("a", None) is None


def test_a_message_is_priced_by_what_is_known() -> None:
    pricing = Pricing()
    assert pricing.price("t", None) == Price(1.0, True)
    pricing.learn("t", None, 0.5)
    assert pricing.price("t", None) == Price(0.5, False)
    assert pricing.price("other", None) == Price(0.5, False)


def test_a_loaded_model_sets_the_unit() -> None:
    pricing = Pricing()
    pricing.load({"v": 1, "tasks": {"t": {"mean": 0.2, "n": 50}}, "keys": {}})
    assert pricing.fit() == Change(0.2, True)
    assert pricing.unit == 0.2
    assert pricing.charged(Price(1.0, True)) == 0.2
    assert pricing.charged(Price(0.3, False)) == 0.3


def test_what_a_message_usually_takes() -> None:
    pricing = Pricing()
    assert 0 < pricing.usual < 1e-3
    for seconds in (1.0, 3.0):
        pricing.learn("a", None, seconds)
    assert pricing.usual == pytest.approx(2.0)
