"""Bad numbers are refused with the number named; extreme ones end no loop late."""

from __future__ import annotations

import math
from typing import Any

import pytest

from celery_fair.core.classes import ClassScheduler
from celery_fair.core.pricing import check_cost, check_quantum
from tests.core.named import Named

BAD: list[Any] = [0, -1, 0.0, math.nan, math.inf, -math.inf, "1", None, True, 10**400]


@pytest.mark.parametrize("value", BAD, ids=lambda value: repr(value)[:12])
def test_no_number_above_zero(value: Any) -> None:
    for check in (check_quantum, check_cost):
        with pytest.raises(ValueError, match="above zero, not") as refused:
            check(value)
        assert repr(value)[:12] in str(refused.value)


def test_a_good_number_becomes_a_float() -> None:
    assert check_quantum(4) == 4.0
    assert check_cost(0.5) == 0.5


def test_a_cost_beyond_all_reach_of_its_quantum_is_served_all_the_same() -> None:
    scheduler = Named()
    flow = scheduler.add("a", 1e-300)
    scheduler.offer(flow, 1e300)
    assert scheduler.choose(0.0, 0.0) is flow


def test_a_small_quantum_is_not_walked_to() -> None:
    """A thousand million rounds in which nothing can be served take no longer than one."""
    scheduler = Named()
    tiny, other = scheduler.add("tiny", 1e-9), scheduler.add("other", 1)
    scheduler.offer(tiny, 1)
    scheduler.offer(other, 1)
    assert scheduler.choose(0.0, 0.0) is other
    assert scheduler.rounds_ahead(tiny) == pytest.approx(1e9)
    scheduler.serve(other, 1, None)
    assert scheduler.choose(0.0, 0.0) is tiny


def test_an_overdue_wait_can_be_extended_or_ended_in_any_class() -> None:
    scheduler = ClassScheduler()
    flow = scheduler.add("a", 1, level=3)
    scheduler.of(flow).offer(flow, 1)
    assert scheduler.choose(0.0, 1.0) is flow
    scheduler.serve(flow, 1, None, owed=True)
    assert scheduler.choose(0.0, 1.0) is None
    assert scheduler.overdue(1.0) == [flow]
    scheduler.of(flow).extend(flow, 5.0)
    assert scheduler.expire(2.0) == []
    assert scheduler.expire(5.0) == [flow]


def test_what_becomes_of_a_removed_flow_changes_nothing() -> None:
    scheduler = ClassScheduler()
    flow = scheduler.add("a", 1)
    scheduler.of(flow).offer(flow, 1)
    scheduler.remove(flow)
    scheduler.serve(flow, 1, 1)
    assert scheduler.choose(0.0, 0.0) is None
