"""Laws of the token bucket."""

from __future__ import annotations

import math
from itertools import accumulate

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from celery_fair.core.token_bucket import TokenBucket

RATES = st.floats(0.01, 1000)
CAPACITIES = st.integers(1, 50)
GAPS = st.lists(st.sampled_from((0.0, 1e-4, 0.01, 0.1, 1.0, 30.0)) | st.floats(0, 2), max_size=60)
STARTS = st.sampled_from((0.0, 1e6, 1.7e9))
SLACK = 0.05


def assert_law(times: list[float], rate: float, capacity: float) -> None:
    """In every window, over all pairs of takes: capacity + rate * t at the most."""
    start = times[0] if times else 0.0
    least = math.inf
    for count, now in enumerate(times):
        ahead = count - rate * (now - start)
        least = min(least, ahead)
        assert ahead - least + 1 <= capacity + 1e-6 + rate * 4 * math.ulp(now)


@given(RATES, CAPACITIES, GAPS, STARTS, st.sampled_from((0.0, SLACK)))
def test_no_window_has_more_than_the_capacity_and_what_came_in(
    rate: float, capacity: int, gaps: list[float], start: float, slack: float
) -> None:
    bucket = TokenBucket(rate, capacity, start, slack)
    taken = []
    for now in accumulate(gaps, initial=start):
        while bucket.take(now):
            taken.append(now)
    assert_law(taken, rate, capacity)


@given(RATES, CAPACITIES, st.lists(st.tuples(st.floats(0, 2), st.integers(1, 50)), max_size=50))
def test_the_law_holds_for_several_tokens_at_once(
    rate: float, capacity: int, asks: list[tuple[float, int]]
) -> None:
    bucket, now = TokenBucket(rate, capacity, 0), 0.0
    taken = []
    for gap, n in asks:
        now += gap
        if n <= capacity and bucket.take(now, n):
            taken += [now] * n
    assert_law(taken, rate, capacity)


@given(RATES, CAPACITIES, st.lists(st.floats(0, 10), max_size=20), STARTS)
def test_it_is_refused_until_just_before_the_time_it_names_and_granted_at_it(
    rate: float, capacity: int, gaps: list[float], start: float
) -> None:
    bucket, now = TokenBucket(rate, capacity, start), start
    for gap in gaps:
        now += gap
        while bucket.take(now):
            pass
        when = bucket.when(now)
        assert when > now
        assert not bucket.take(math.nextafter(when, now))
        assert bucket.when(when) == when
        assert bucket.take(when)
        now = when


@given(RATES, CAPACITIES, st.integers(1, 50))
def test_the_time_for_several_tokens_is_exact_too(rate: float, capacity: int, n: int) -> None:
    bucket = TokenBucket(rate, max(capacity, n), 0)
    while bucket.take(0):
        pass
    when = bucket.when(0, n)
    assert when == pytest.approx(n / rate)
    assert not bucket.take(math.nextafter(when, 0), n)
    assert bucket.take(when, n)


@pytest.mark.parametrize("idle", [0.5, 60, 1e9])
def test_idle_time_restores_the_burst_and_no_more(idle: float) -> None:
    bucket = TokenBucket(10, 5, 0)
    assert [bucket.take(0) for _ in range(6)] == [True] * 5 + [False]
    assert [bucket.take(idle) for _ in range(6)] == [True] * 5 + [False]


def test_it_starts_full_and_fills_at_its_rate() -> None:
    bucket = TokenBucket(2, 5, 100)
    assert bucket.level(100) == 5
    assert bucket.take(100, 5)
    assert bucket.level(101) == 2
    assert bucket.level(103) == 5
    assert bucket.when(100, 3) == 101.5


def test_a_clock_that_stands_still_brings_nothing_in() -> None:
    bucket = TokenBucket(1000, 3, 7.0)
    assert sum(bucket.take(7.0) for _ in range(1000)) == 3


@pytest.mark.parametrize("n", [6, 5.5, math.inf, 0, -1, math.nan])
def test_a_number_that_never_fits_is_an_error_and_takes_nothing(n: float) -> None:
    bucket = TokenBucket(10, 5, 0)
    with pytest.raises(ValueError, match=r"cannot take .* at once from a bucket of 5"):
        bucket.take(0, n)
    assert bucket.level(0) == 5


def test_many_takes_do_not_drift() -> None:
    bucket, now = TokenBucket(1000, 1, 1e6), 1e6
    for _ in range(200_000):
        assert bucket.take(now)
        now = bucket.when(now)
    assert now - 1e6 == pytest.approx(200, rel=1e-6)


@given(st.integers(1, 5), st.integers(1, 5))
def test_what_is_given_back_can_be_taken_again(taken: int, returned: int) -> None:
    bucket = TokenBucket(1, 5, 0)
    bucket.take(0, taken)
    bucket.give_back(0, returned)
    assert bucket.level(0) == min(5, 5 - taken + returned)


def test_what_is_given_back_late_never_overfills() -> None:
    bucket = TokenBucket(1, 5, 0)
    bucket.take(0, 5)
    bucket.give_back(0, 2)
    assert bucket.level(4) == 5
    bucket.take(4, 5)
    assert not bucket.take(4)


@given(st.lists(st.booleans(), max_size=200), RATES)
def test_giving_everything_back_leaves_the_bucket_as_it_was(steps: list[bool], rate: float) -> None:
    bucket, out = TokenBucket(rate, 5, 0), 0
    for take in steps:
        if take and bucket.take(0):
            out += 1
        elif not take and out:
            bucket.give_back(0)
            out -= 1
    assert bucket.level(0) == 5 - out


@pytest.mark.parametrize("rate", [5e-324, 1e-300, 1e300, 1.7e308])
@pytest.mark.parametrize("capacity", [1, 1e300])
@pytest.mark.parametrize("slack", [0.0, SLACK])
def test_extreme_numbers_do_no_harm(rate: float, capacity: float, slack: float) -> None:
    bucket = TokenBucket(rate, capacity, 1e6, slack)
    assert bucket.take(1e6)
    assert bucket.when(1e6) >= 1e6
    assert 0 <= bucket.level(1e6) <= capacity
    assert 0 <= bucket.level(1e300) <= capacity
    bucket.give_back(1e6)
    assert bucket.level(1e6) <= capacity


@pytest.mark.parametrize("rate", [0, -1, math.nan, math.inf])
def test_bad_rates_are_refused(rate: float) -> None:
    with pytest.raises(ValueError, match=f"above 0, not {rate!r}"):
        TokenBucket(rate, 1, 0)


@pytest.mark.parametrize("capacity", [0, 0.99, -1, math.nan, math.inf])
def test_bad_capacities_are_refused(capacity: float) -> None:
    with pytest.raises(ValueError, match=f"at least 1, not {capacity!r}"):
        TokenBucket(1, capacity, 0)


# Slack: starts trail decisions by up to so much, and yet the law holds as a partner sees it.


@given(
    st.lists(st.tuples(st.sampled_from((0.0, 0.001, 0.02, 0.1, 1.0)), st.floats(0, 1)), min_size=30)
)
@example([(0.0, 1.0)] * 5 + [(0.01, 0.0)] * 60)
@example([(0.47, 1.0), (0.0, 0.0)] * 20 + [(0.001, 0.0)] * 60)
def test_starts_that_trail_decisions_keep_the_law(steps: list[tuple[float, float]]) -> None:
    rate, capacity = 10.0, 5
    bucket, now, starts = TokenBucket(rate, capacity, 0, SLACK), 0.0, []
    for gap, lateness in steps:
        now += gap
        if bucket.take(now):
            starts.append(now + lateness * SLACK)
    assert_law(sorted(starts), rate, capacity)


@pytest.mark.parametrize("capacity", [1, 2, 5])
@pytest.mark.parametrize("rate", [1.0, 10.0, 1000.0])
def test_slack_costs_a_busy_bucket_nothing(rate: float, capacity: int) -> None:
    bucket, now = TokenBucket(rate, capacity, 0, SLACK), 0.0
    for _ in range(1000):
        now = bucket.when(now)
        assert bucket.take(now)
    assert now <= (1000 - capacity) / rate + SLACK + 1e-6


@pytest.mark.parametrize("late", [0.001, 0.01])
def test_slack_costs_nothing_where_each_token_is_fetched_a_little_late(late: float) -> None:
    bucket, now = TokenBucket(10, 1, 0, SLACK), 0.0
    for _ in range(1000):
        now = bucket.when(now) + late
        assert bucket.take(now)
    assert now <= 1000 * (0.1 + late) + SLACK


def test_after_idle_time_the_refill_begins_by_the_slack_later() -> None:
    bucket = TokenBucket(10, 1, 0, SLACK)
    assert bucket.take(0)
    assert bucket.when(0) == pytest.approx(0.15)
    assert bucket.take(bucket.when(0))
    assert bucket.when(0) == pytest.approx(0.25)
    assert bucket.take(7)
    assert bucket.when(7) == pytest.approx(7.15)
