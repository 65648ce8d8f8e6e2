"""Leases are in doubt for a while after a step of the clock that ends them; else they are not."""

from __future__ import annotations

from celery_fair.core.groups.tenure import ClockWatch

DOUBT = 4.0
LEAD = 1000.0


def steady() -> ClockWatch:
    """One that has been looked at for as long as it was in doubt."""
    watch = ClockWatch(DOUBT)
    assert watch.doubts(LEAD, 0.0, 0.0)
    assert watch.doubts(LEAD + 3.9, 3.9, 3.9)
    assert not watch.doubts(LEAD + DOUBT, DOUBT, DOUBT)
    return watch


def test_what_had_ended_before_the_first_look_is_in_doubt() -> None:
    steady()


def test_what_a_step_has_ended_is_in_doubt() -> None:
    watch = steady()
    assert watch.doubts(LEAD + 3600 + 5, 5.0, 5.0)
    assert watch.doubts(LEAD + 3600 + 8.9, 8.9, 8.9)
    assert not watch.doubts(LEAD + 3600 + 9, 9.0, 9.0)


def test_a_slow_answer_is_no_step() -> None:
    watch = steady()
    assert not watch.doubts(LEAD + 100, 10.0, 100.0)
    assert not watch.doubts(LEAD + 101, 101.0, 101.0)


def test_many_small_steps_are_one() -> None:
    watch = steady()
    doubted = [watch.doubts(LEAD + 5 + 1.9 * n, 5.0, 5.0) for n in (1, 2)]
    assert doubted == [False, True]


def test_a_clock_that_was_put_back_and_forward_again_has_stepped() -> None:
    watch = steady()
    assert not watch.doubts(LEAD - 100, 5.0, 5.0)
    assert watch.doubts(LEAD + 6, 6.0, 6.0)
