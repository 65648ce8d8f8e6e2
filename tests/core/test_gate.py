"""What keeps a queue that has messages from starting one: a pause, a cap, a leash."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_fair.core.gate import SLACK, Gate, Hold, LocalLeash
from celery_fair.settings import QueueOptions


def gate_of(**options: Any) -> Gate[QueueOptions]:
    checked = QueueOptions(1, **options)
    leash = LocalLeash(checked.rate, checked.burst, 0) if checked.rate is not None else None
    return Gate(checked, leash)


def passes(gate: Gate[QueueOptions], now: float, in_flight: int = 0) -> int:
    """How often in a row the gate lets something through."""
    count = 0
    while gate.hold(now, in_flight) is None and count < 100:
        count += 1
    return count


def test_without_options_it_is_open() -> None:
    gate = gate_of()
    assert passes(gate, 0, in_flight=10**6) == 100
    gate.give_back(0)
    assert gate.look(0, 10**6) is None


def test_a_cap_holds_until_something_ends() -> None:
    gate = gate_of(max_in_flight=2)
    assert [gate.hold(0, running) for running in (0, 1)] == [None, None]
    assert gate.hold(0, 2) == Hold("cap", math.inf)
    assert gate.hold(0, 3) == Hold("cap", math.inf)
    assert gate.hold(0, 1) is None


def test_a_leash_holds_until_its_next_token() -> None:
    gate = gate_of(rate=10.0, burst=3)
    assert passes(gate, 0) == 3
    hold = gate.hold(0, 0)
    assert hold is not None
    assert hold.reason == "leash"
    assert hold.until == pytest.approx(0.1 + SLACK)  # late, as its burst may start late
    assert gate.hold(math.nextafter(hold.until, 0), 0) is not None
    assert gate.hold(hold.until, 0) is None


def test_a_pause_comes_before_everything_and_takes_no_token() -> None:
    gate = gate_of(rate=10.0, burst=3, max_in_flight=1)
    gate.pause(True)
    for _ in range(10):
        assert gate.hold(0, 5) == Hold("paused", math.inf)
    gate.pause(False)
    assert passes(gate, 0) == 3


def test_a_cap_takes_no_token() -> None:
    gate = gate_of(rate=10.0, burst=3, max_in_flight=1)
    for _ in range(10):
        assert gate.hold(0, 1) == Hold("cap", math.inf)
    assert passes(gate, 0) == 3


def test_looking_takes_no_token() -> None:
    gate = gate_of(rate=10.0, burst=3)
    for _ in range(10):
        assert gate.look(0, 0) is None
    assert passes(gate, 0) == 3


def test_a_fence_holds_what_is_not_ours_any_more() -> None:
    gate = gate_of(max_in_flight=1)
    assert not gate.fenced
    gate.fence(lambda now: now >= 10)
    assert gate.fenced
    assert gate.hold(9.9, 0) is None
    hold = gate.hold(10, 0)
    assert hold is not None
    assert hold.reason == "paused"
    assert hold.until > 10


def test_what_did_not_start_gives_its_token_back() -> None:
    gate = gate_of(rate=10.0, burst=3)
    for _ in range(50):
        assert gate.hold(0, 0) is None
        gate.give_back(0)
    assert passes(gate, 0) == 3


def test_options_and_leash_can_be_changed() -> None:
    gate = gate_of(rate=10.0, burst=3)
    assert passes(gate, 0) == 3
    gate.change(QueueOptions(1, max_in_flight=1), None)
    assert passes(gate, 0) == 100
    assert gate.hold(0, 1) == Hold("cap", math.inf)


@pytest.mark.parametrize(
    ("rate", "burst", "there"),
    [(10.0, 5, 2), (10.0, 1, 1), (1000.0, 2, 2), (0.001, 5, 2)],
)
def test_another_rate_goes_on_with_the_tokens_that_are_left(
    rate: float, burst: int, there: int
) -> None:
    leash = LocalLeash(20, 5, 0)
    for _ in range(3):
        assert leash.take(0)
    leash.change(rate, burst, 0)
    assert [leash.take(0) for _ in range(burst + 1)].count(True) == there
    assert leash.when(0) >= 1 / rate


@given(st.floats(0, 1e9), st.floats(0.01, 1e4), st.floats(0.01, 1e4), st.integers(1, 20))
def test_an_empty_leash_can_be_changed_at_any_time(
    now: float, before: float, after: float, burst: int
) -> None:
    leash = LocalLeash(before, burst, now)
    for _ in range(3 * burst):
        now = leash.when(now)
        assert leash.take(now)
    leash.change(after, burst, now)
    assert sum(leash.take(now) for _ in range(burst)) <= 1
