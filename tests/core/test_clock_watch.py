"""Leases that a clock ends by a step are in doubt for a while; those that time ends are not."""

from __future__ import annotations

import math

from celery_fair.core.groups.tenure import ClockWatch

DOUBT = 4.0
LEAD = 1000.0


def steady() -> ClockWatch:
    """One that has been looked at for as long as it was in doubt."""
    watch = ClockWatch(DOUBT)
    assert watch.judges_from(LEAD, 0.0, 0.0) == LEAD
    assert watch.judges_from(LEAD + 3.9, 3.9, 3.9) == LEAD
    assert watch.judges_from(LEAD + DOUBT, DOUBT, DOUBT) == -math.inf
    return watch


def test_what_had_ended_before_the_first_look_is_in_doubt() -> None:
    steady()


def test_what_a_step_has_ended_is_in_doubt() -> None:
    watch = steady()
    assert watch.judges_from(LEAD + 3600 + 5, 5.0, 5.0) == LEAD + 3600 + 5
    assert watch.judges_from(LEAD + 3600 + 9, 9.0, 9.0) == -math.inf


def test_a_slow_answer_is_no_step() -> None:
    watch = steady()
    assert watch.judges_from(LEAD + 100, 10.0, 100.0) == -math.inf
    assert watch.judges_from(LEAD + 101, 101.0, 101.0) == -math.inf


def test_many_small_steps_are_one() -> None:
    watch = steady()
    doubts = [watch.judges_from(LEAD + 5 + 1.9 * n, 5.0, 5.0) for n in (1, 2)]
    assert doubts == [-math.inf, LEAD + 5 + 3.8]


def test_a_clock_that_was_put_back_and_forward_again_has_stepped() -> None:
    watch = steady()
    assert watch.judges_from(LEAD - 100, 5.0, 5.0) == -math.inf
    assert watch.judges_from(LEAD + 6, 6.0, 6.0) == LEAD + 6
