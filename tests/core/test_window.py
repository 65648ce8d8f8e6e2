"""Windows: what an empty buffer means, how large a window is, what a refill takes."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from celery_fair.core.parking import Parking
from celery_fair.core.window import LEAST, SECONDS_OF_WORK, Ahead, RefillMeter, Room, Window, plan


def filled(size: int) -> Window:
    window = Window(size)
    for _ in range(size):
        window.delivered(0.0)
    return window


def test_no_backlog_is_known_before_the_window_has_been_full() -> None:
    window = Window(3)
    window.delivered(0.0)
    window.delivered(0.0)
    assert not window.backlogged
    window.delivered(0.0)
    assert window.backlogged


def test_a_backlog_stays_known_while_acknowledgements_go_out() -> None:
    window = filled(3)
    for _ in range(3):
        window.settled(0.0)
    assert window.backlogged
    assert window.held == 0


def test_a_wait_in_vain_takes_the_evidence_back_until_it_fills_again() -> None:
    window = filled(2)
    window.settled(0.0)
    window.disappointed()
    assert not window.backlogged
    window.delivered(0.0)
    assert window.backlogged


def test_another_size_keeps_the_evidence() -> None:
    window = filled(2)
    window.resize(10)
    assert window.backlogged
    assert window.size == 10


def test_a_new_subscription_counts_anew_and_knows_the_backlog() -> None:
    window = filled(4)
    window.renew(2)
    assert (window.size, window.held, window.backlogged) == (2, 0, True)


@example(2, 0.001, [0.01] * 9)
@given(st.integers(1, 20), st.floats(0.001, 0.4), st.lists(st.floats(0.0001, 0.01), max_size=200))
def test_a_sample_is_the_time_from_an_ack_to_the_delivery_that_it_allowed(
    size: int, delay: float, pauses: list[float]
) -> None:
    """A broker that answers each acknowledgement with one delivery, `delay` later."""
    window, now = filled(size), 0.0
    on_the_way: deque[float] = deque()
    for pause in pauses:
        now += pause
        while on_the_way and on_the_way[0] <= now:
            measured = window.delivered(on_the_way.popleft())
            assert measured is None or measured == pytest.approx(delay)
        if window.held:
            window.settled(now)
            on_the_way.append(now + delay)
    assert window.held + len(on_the_way) == size


WEIGHTS = st.dictionaries(
    st.text("abcdefgh", min_size=1), st.floats(0.1, 1000), min_size=1, max_size=20
)


@given(WEIGHTS, st.floats(0, 1e5), st.floats(0, 0.5), st.integers(0, 1000))
def test_windows_are_in_proportion_and_bounded(
    weights: dict[str, float], rate: float, delay: float, least: int
) -> None:
    windows = plan(weights, rate, delay, least)
    a_round = sum(weights.values())
    most = max(least, min(2 * (a_round + rate * delay), rate * SECONDS_OF_WORK))
    for name, window in windows.items():
        assert window >= LEAST
        assert window <= max(LEAST, most * weights[name] / a_round + 1)
        assert window >= most * weights[name] / a_round - 1e-6


def test_the_windows_of_the_sources_quanta() -> None:
    quanta = {f"p{i}": 4.0 * (i + 1) for i in range(10)}
    windows = plan(quanta, rate=10_000, delay=0.0, least_total=8)
    assert windows == {name: 2 * quantum for name, quantum in quanta.items()}


def test_a_slow_worker_holds_little() -> None:
    assert plan({"a": 40.0, "b": 4.0}, rate=2.0, delay=0.01, least_total=0) == {"a": 2, "b": 2}


def test_the_rate_is_that_of_the_first_interval_then_smoothed() -> None:
    meter = RefillMeter(weight=0.5)
    meter.interval(0.0)
    meter.started(100)
    meter.interval(1.0)
    assert meter.rate == 100
    meter.started(300)
    meter.interval(2.0)
    assert meter.rate == 200
    meter.interval(2.0)
    assert meter.rate == 200


@given(st.lists(st.floats(-1, 10), max_size=50))
def test_patience_is_bounded_whatever_is_measured(delays: list[float]) -> None:
    meter = RefillMeter()
    for delay in delays:
        meter.refilled(delay)
        assert 0.0 <= meter.delay <= 0.5
        assert 0.02 <= meter.patience <= 0.25


def test_a_delay_is_learnt() -> None:
    meter = RefillMeter()
    for _ in range(100):
        meter.refilled(0.03)
    assert meter.delay == pytest.approx(0.03)
    assert meter.patience == pytest.approx(0.12)


def test_as_many_as_slots_are_free_or_start_in_a_moment() -> None:
    free = 3
    ahead = Ahead(0.01, lambda: free)
    assert ahead.count(0, 100.0) == 3
    free = 0
    assert ahead.count(10, 100.05) == 1
    assert ahead.count(2000, 100.11) == 32  # 200 in a hundredth of a second
    assert ahead.count(2005, 100.22) == 1
    assert ahead.count(2005 + 150, 100.33) == 13


# What is put off ---------------------------------------------------------------------------------


def room(wanted: int = 10, late: int = 0, limit: int | None = None) -> Room:
    return Room(wanted, lambda: late, Parking(limit, lambda: None))


@given(st.integers(2, 50), st.integers(0, 8), st.integers(0, 300))
def test_what_is_put_off_takes_no_place_of_the_rest(wanted: int, late: int, parked: int) -> None:
    one, changes, size = room(wanted, late), 0, wanted + late
    for _ in range(parked):
        one.park(counted=True)
        if one.misfits(size, 0, may_shrink=False):
            changes, size = changes + 1, one.prefetch
        assert size - one.parked >= wanted + late
    assert changes <= 1 + parked.bit_length()
    for _ in range(parked):
        one.unpark(counted=True)
    assert one.prefetch == wanted + late
    assert one.free(0) == wanted


@given(st.integers(2, 20), st.integers(0, 100), st.integers(0, 40), st.integers(0, 40))
def test_no_more_is_put_off_than_the_worker_may(
    wanted: int, limit: int, others: int, buffered: int
) -> None:
    """But for what fits into the window that a queue has in any case."""
    parking = Parking(limit, lambda: None)
    one = Room(wanted, int, parking)
    for _ in range(others):
        parking.enter()
    while one.has_any:
        one.park(counted=False)
        assert one.parked <= max(wanted, limit - others)
        assert one.beside_parked(buffered) <= max(wanted - one.parked, parking.room - buffered)
    assert one.free(0) == 0


def test_a_window_that_begins_anew_counts_nothing_that_was_put_off_before() -> None:
    one = room()
    for _ in range(10):
        one.park(counted=True)
    assert one.misfits(10, 0, may_shrink=True)
    one.renew()
    assert not one.misfits(10, 0, may_shrink=True)
    one.unpark(counted=False)
    assert not one.misfits(10, 0, may_shrink=True)


def test_a_window_that_has_become_far_too_large_is_made_smaller_if_it_may() -> None:
    one = room()
    assert not one.misfits(39, 0, may_shrink=True)
    assert one.misfits(40, 0, may_shrink=True)
    assert not one.misfits(40, 0, may_shrink=False)


def test_a_window_grows_with_what_is_unsettled_while_it_runs() -> None:
    late = 1
    one = Room(2, lambda: late, Parking(None, lambda: None))
    assert not one.misfits(3, 0, may_shrink=False)
    late = 4
    assert one.misfits(3, 0, may_shrink=False)
    assert one.prefetch == 6


def test_what_a_rate_limit_holds_back_keeps_its_place() -> None:
    one = room()
    one.limit(3)
    assert (one.free(4), one.limited) == (3, 3)
    one.limit(-3)
    assert one.free(4) == 6


def test_a_window_that_is_about_right_suits() -> None:
    one = room(10)
    assert [one.suits(window) for window in (2, 3, 12, 13)] == [False, True, True, False]
    one.want(20)
    assert one.suits(13)


def test_what_is_gone_leaves_its_place_to_others() -> None:
    told = []
    one = Room(2, int, Parking(1, lambda: told.append(None)))
    one.close()
    assert told == []
    one.park(counted=True)
    one.close()
    assert len(told) == 1
