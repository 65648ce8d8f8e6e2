"""The table of dispositions is complete, and lets nothing start that may have started."""

from __future__ import annotations

from itertools import product

import pytest

from celery_fair.core.disposition import TABLE, Action, Delivery, Policy, disposition


def test_every_case_is_decided() -> None:
    assert set(TABLE) == set(product(Delivery, Policy))


@pytest.mark.parametrize("policy", [Policy.BEFORE, Policy.AFTER])
def test_what_may_have_started_never_starts(policy: Policy) -> None:
    assert disposition(True, policy) is Action.DEAD_LETTER


def test_fresh_messages_run() -> None:
    assert disposition(False, Policy.BEFORE) is Action.ACKNOWLEDGE_THEN_RUN
    assert disposition(False, Policy.AFTER) is Action.RUN


@pytest.mark.parametrize("redelivered", [False, True])
def test_repeatable_tasks_are_celerys(redelivered: bool) -> None:
    assert disposition(redelivered, Policy.REPEATABLE) is Action.RUN
