"""Intervals and bounds beside quantiles of waits, against what is known of them."""

from __future__ import annotations

from random import Random

import pytest

from celery_fair.pipeline.replay.line import Message
from celery_fair.pipeline.replay.machine import Machine
from celery_fair.pipeline.replay.outcome import quantile, resampled
from celery_fair.pipeline.replay.scenario import Scenario

LOAD = 0.5
TRACES, LENGTH = 60, 3000


def waits(seed: int, count: int, load: float = LOAD) -> list[float]:
    """One server; messages come at random and take a second on average, at random."""
    random = Random(seed)
    published, trace = 0.0, []
    for _ in range(count):
        published += random.expovariate(load)
        trace.append(Message(published, "q", "t", None, random.expovariate(1.0)))
    return [start.at - start.message.published for start in Machine(Scenario("s")).run(trace)]


def test_intervals_hold_what_is_true() -> None:
    """Nine times of ten: of sixty in fifty or more, but for a chance of 4 %; a bound more often."""
    truth = sorted(waits(0, 200_000))
    percents = (90, 95)
    found = [resampled(waits(seed, LENGTH), percents) for seed in range(1, TRACES + 1)]
    told = [each for each in found if each.doubt is None]
    assert len(told) >= 0.9 * TRACES
    for at, percent in enumerate(percents):
        true = quantile(truth, percent)
        inside = sum(low <= true <= high for each in told for low, high in [each.intervals[at]])
        assert inside >= 0.83 * len(told)
        assert sum(each.bounds[at] >= true for each in told) >= 0.95 * len(told)


def test_no_interval_of_a_single_backlog() -> None:
    """What is published at once waits longer and longer: there is no second one to compare with."""
    found = resampled([0.1 * n for n in range(5000)], (50, 95))
    assert found.intervals == [None, None]
    assert "backlog" in str(found.doubt)


@pytest.mark.parametrize(("count", "known"), [(1, 0), (39, 0), (100, 1), (400, 2), (2000, 3)])
def test_no_interval_of_few_messages(count: int, known: int) -> None:
    random = Random(count)
    found = resampled([random.random() for _ in range(count)], (50, 95, 99))
    assert [interval is not None for interval in found.intervals] == [n < known for n in range(3)]
    assert (found.doubt is None) == (known == 3)
    assert len(found.bounds) == 3


def test_waits_that_are_all_alike() -> None:
    assert resampled([0.0] * 400, (95,)).intervals == [(0.0, 0.0)]
