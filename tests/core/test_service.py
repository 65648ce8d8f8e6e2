"""Laws of who is served at all: work conservation, no starvation, no credit for the idle."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_fair.core.dwrr import Flow
from tests.core.named import Named

AMOUNT = st.floats(0.01, 10)
STEP = st.tuples(
    st.sampled_from(("serve", "serve", "run dry", "offer", "drop", "remove", "reweight")),
    st.sampled_from("abcd"),
    AMOUNT,
)


def flow_of(scheduler: Named, key: str, quantum: float = 1) -> Flow:
    found = next((flow for flow in scheduler if flow.key == key), None)
    return found or scheduler.add(key, quantum)


def take_step(scheduler: Named, step: str, key: str, amount: float) -> Flow | None:
    """Do something; return the flow that was served, if any."""
    if step in {"serve", "run dry"}:
        flow = scheduler.choose(0, 0)
        if flow is not None:
            scheduler.serve(flow, flow.head or 0, amount if step == "serve" else None)
        return flow
    flow = flow_of(scheduler, key, amount)
    if step == "reweight":
        scheduler.reweight(flow, amount)
    elif step == "offer":
        scheduler.offer(flow, amount)
    else:
        getattr(scheduler, step)(flow)
    return None


@given(st.lists(STEP, max_size=80))
def test_work_conservation(steps: list[tuple[str, str, float]]) -> None:
    """While nobody is owed anything, a flow is chosen if and only if some flow has a message."""
    scheduler = Named()
    for step in steps:
        take_step(scheduler, *step)
        chosen = scheduler.choose(0, 0)
        assert (chosen is not None) == any(flow.head is not None for flow in scheduler)
        assert chosen is scheduler.choose(0, 0)
        assert chosen is None or (chosen.head is not None and chosen.deficit >= chosen.head)
        assert scheduler.deadline is None


@given(
    quantum=AMOUNT, cost=AMOUNT, quanta=st.tuples(AMOUNT, AMOUNT), steps=st.lists(STEP, max_size=40)
)
def test_no_starvation(
    quantum: float, cost: float, quanta: tuple[float, float], steps: list[tuple[str, str, float]]
) -> None:
    """Served in its R-th turn, R = ceil(cost / quantum), before j gets (R + 1) * Q_j + Max."""
    scheduler = Named()
    for step in steps:  # a past
        take_step(scheduler, *step)
    rivals = {key: flow_of(scheduler, key) for key in "ab"}
    for rival, its_quantum in zip(rivals.values(), quanta, strict=True):
        scheduler.reweight(rival, its_quantum)
        scheduler.drop(rival)
        scheduler.offer(rival, 10)
    for key in "cd":
        scheduler.drop(flow_of(scheduler, key))
    scheduler.offer(scheduler.add("late", quantum), cost)

    served = dict.fromkeys("ab", 0.0)
    while (flow := scheduler.choose(0, 0)) is not scheduler["late"]:
        assert flow is not None
        served[flow.key] += flow.head or 0
        scheduler.serve(flow, flow.head or 0, 10)
    turns = math.ceil(cost / quantum)
    for key, rival in rivals.items():
        assert served[key] <= ((turns + 1) * rival.quantum + 10) * (1 + 1e-9)


@given(
    flapping=AMOUNT,
    steady=AMOUNT,
    gaps=st.lists(st.tuples(st.booleans(), st.booleans(), AMOUNT), min_size=20, max_size=150),
)
def test_a_flapping_flow_gets_no_more_than_its_share(
    flapping: float, steady: float, gaps: list[tuple[bool, bool, float]]
) -> None:
    """However it flaps, it never runs ahead of a backlogged flow by more than the bound."""
    scheduler = Named()
    flaps, stays = scheduler.add("flaps", flapping), scheduler.add("stays", steady)
    least = min(flapping, steady)
    scheduler.offer(stays, 10)
    ahead = lowest = 0.0
    for runs_dry, dropped, cost in gaps:
        if flaps.head is None:
            scheduler.offer(flaps, cost)
        elif dropped:
            scheduler.drop(flaps)
            scheduler.offer(flaps, cost)
        flow = scheduler.choose(0, 0)
        assert flow is not None
        served = flow.head or 0
        ahead += served * least / flow.quantum * (1 if flow is flaps else -1)
        scheduler.serve(flow, served, cost if flow is stays or not runs_dry else None)
        lowest = min(lowest, ahead)
        assert ahead - lowest <= 2 * 10 + 2 * least


def test_running_dry_and_back_in_one_round_brings_no_second_quantum() -> None:
    scheduler = Named()
    flaps, stays = scheduler.add("flaps", 5), scheduler.add("stays", 1)
    scheduler.offer(flaps, 1)
    scheduler.offer(stays, 1)
    order = ""
    for _ in range(8):
        flow = scheduler.choose(0, 0)
        assert flow is not None
        order += flow.key[0]
        scheduler.serve(flow, 1, 1 if flow is stays else None)
        scheduler.offer(flaps, 1)
    assert order == "fssfsfsf"  # one of each in every round, in the order of joining it


@given(quantum=AMOUNT, cost=AMOUNT)
def test_an_idle_flow_keeps_no_credit(quantum: float, cost: float) -> None:
    scheduler = Named()
    flow = scheduler.add("a", quantum)
    scheduler.offer(flow, cost)
    assert scheduler.choose(0, 0) is flow
    scheduler.serve(flow, cost, None)
    assert (flow.deficit, flow.is_backlogged) == (0, False)
    scheduler.settle(flow, -100)
    assert flow.deficit == 0


def test_a_debt_is_paid_before_anything_else() -> None:
    scheduler = Named()
    debtor, other = scheduler.add("debtor", 2), scheduler.add("other", 1)
    scheduler.offer(debtor, 2)
    assert scheduler.choose(0, 0) is debtor
    scheduler.serve(debtor, 2, None)
    scheduler.settle(debtor, 6)
    assert debtor.deficit == -6
    scheduler.offer(debtor, 2)
    scheduler.offer(other, 1)
    others = 0
    while (flow := scheduler.choose(0, 0)) is other:
        others += 1
        scheduler.serve(flow, 1, 1)
    # Four rounds of 2 lift -6 to 2, and `other` has its turn in each before the fourth, first in
    # the round that `debtor` had begun.
    assert (flow, others) == (debtor, 4)


def test_a_refund_may_bring_a_turn_forward_even_into_this_round() -> None:
    scheduler = Named()
    a, b, c = (scheduler.add(key, 1) for key in "abc")
    scheduler.offer(a, 1)
    scheduler.offer(b, 3)
    scheduler.offer(c, 1)
    for flow, cost in ((a, 1), (c, 1)):  # b falls short, and is filed two rounds ahead
        assert scheduler.choose(0, 0) is flow
        scheduler.serve(flow, cost, 1)
    assert scheduler.choose(0, 0) is a
    scheduler.settle(b, -1)
    scheduler.serve(a, 1, 1)
    assert scheduler.choose(0, 0) is b


def test_a_raised_quantum_is_not_paid_for_rounds_that_are_over() -> None:
    """Whether or not the flow's turn in the round has come."""
    scheduler = Named()
    first, late = scheduler.add("first", 1), scheduler.add("late", 1)
    scheduler.offer(first, 1)
    scheduler.offer(late, 50)
    for _ in range(50):
        assert scheduler.choose(0, 0) is first
        scheduler.serve(first, 1, 1)
        if late.due == first.due:
            break
    scheduler.reweight(late, 1_000)
    flow = scheduler.choose(0, 0)
    while flow is first:
        scheduler.serve(first, 1, 1)
        flow = scheduler.choose(0, 0)
    assert flow is late
    assert late.deficit < 1_050


def test_a_dropped_flow_that_was_being_served_is_served_on() -> None:
    scheduler = Named()
    flow = scheduler.add("a", 5)
    scheduler.offer(flow, 1)
    assert scheduler.choose(0, 0) is flow
    scheduler.drop(flow)
    scheduler.serve(flow, 1, 1)
    assert scheduler.choose(0, 0) is flow


def test_nothing_is_free_of_charge_but_what_was_not_worked_on() -> None:
    scheduler = Named()
    flow = scheduler.add("a", 2)
    scheduler.offer(flow, 1)
    scheduler.choose(0, 0)
    for cost, left in ((0, 2), (1, 1), (0, 1)):
        scheduler.serve(flow, cost, 1)
        assert flow.deficit == left


class TestRemoved:
    """A removed flow is forgotten, whatever is said of it afterwards."""

    @pytest.fixture
    def scheduler(self) -> Named:
        scheduler = Named()
        for key in "ab":
            scheduler.offer(scheduler.add(key, 1), 1)
        return scheduler

    def test_takes_no_part(self, scheduler: Named) -> None:
        gone = scheduler["a"]
        assert scheduler.choose(0, 0) is gone
        scheduler.remove(gone)
        scheduler.serve(gone, 1, 1)
        scheduler.offer(gone, 1)
        scheduler.settle(gone, -5)
        scheduler.reweight(gone, 7)
        scheduler.drop(gone)
        scheduler.offer(gone, 1)
        assert not gone.is_backlogged
        for _ in range(5):
            flow = scheduler.choose(0, 0)
            assert flow is scheduler["b"]
            scheduler.serve(flow, 1, 1)
