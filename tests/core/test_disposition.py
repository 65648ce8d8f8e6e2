"""The table of dispositions is complete, and lets nothing start that may have started."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_fair.core.disposition import (
    SKEW,
    TABLE,
    Action,
    Delivery,
    Policy,
    disposition,
    proves_unstarted,
)

ONCE = [Policy.BEFORE, Policy.AFTER]
TIMES = st.floats(0, 4e9)


def test_every_case_is_decided() -> None:
    assert set(TABLE) == set(product(Delivery, Policy))
    assert all(delivery.meaning for delivery in Delivery)


@pytest.mark.parametrize("policy", ONCE)
@pytest.mark.parametrize("delivery", [Delivery.REDELIVERED, Delivery.CLAIMED])
def test_what_may_have_started_never_starts(delivery: Delivery, policy: Policy) -> None:
    assert disposition(delivery, policy) is Action.DEAD_LETTER


@pytest.mark.parametrize("policy", ONCE)
def test_what_cannot_be_claimed_does_not_start_unmarked(policy: Policy) -> None:
    assert disposition(Delivery.UNKNOWN, policy) is Action.MARK


@pytest.mark.parametrize("delivery", [Delivery.FRESH, Delivery.UNSTARTED])
def test_what_has_not_started_runs(delivery: Delivery) -> None:
    assert disposition(delivery, Policy.BEFORE) is Action.ACKNOWLEDGE_THEN_RUN
    assert disposition(delivery, Policy.AFTER) is Action.RUN


@pytest.mark.parametrize("delivery", [Delivery.FRESH, Delivery.REDELIVERED])
def test_repeatable_tasks_are_celerys(delivery: Delivery) -> None:
    assert disposition(delivery, Policy.REPEATABLE) is Action.RUN


@given(TIMES, TIMES, TIMES, TIMES, st.floats(1, 1e7))
def test_a_proof_needs_all_that_was_ever_claimed_since(
    published: float, since: float, epoch: float, now: float, expiry: float
) -> None:
    assert not proves_unstarted(published, None, epoch, now, expiry)
    if proves_unstarted(published, since, epoch, now, expiry):
        assert max(since, epoch) < published
        assert now - expiry < published < now + 2 * SKEW


@given(st.floats(1e9, 2e9), st.floats(3 * SKEW, 1e6))
def test_a_message_that_is_remembered_is_proof(now: float, age: float) -> None:
    assert proves_unstarted(now - age, 0, now - age - 2 * SKEW, now, age + 2 * SKEW)


def test_each_of_the_three_must_reach_back_to_the_publication() -> None:
    now, published = 1e9, 1e9 - 1000
    before, after = published - SKEW, published - SKEW / 2
    assert proves_unstarted(published, before, before, now, now - before)
    assert not proves_unstarted(published, after, before, now, now - before)
    assert not proves_unstarted(published, before, after, now, now - before)
    assert not proves_unstarted(published, before, before, now, now - after)


@pytest.mark.parametrize("published", [None, True, "1700000000", [], float("nan")])
def test_without_a_time_there_is_no_proof(published: object) -> None:
    assert not proves_unstarted(published, 0, 0, 2e9, 1e12)
