"""Law: skipping rounds is walking them. The same flows are served, in the same order."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.core.named import Named
from tests.core.textbook import Textbook

# Multiples of 1/8 are exact in floats, so both sides compute the very same credits.
AMOUNTS = st.integers(1, 200).map(lambda eighths: eighths / 8)
KEYS = st.sampled_from("abcde")
PATIENCE = 3.0


class BesideTheTextbook(RuleBasedStateMachine):
    """Does everything to both, at any moment; they must agree about everything that shows."""

    def __init__(self) -> None:
        super().__init__()
        self.ours = Named()
        self.book = Textbook()
        self.now = 0.0

    def both(self, method: str, key: str, *args: float | None) -> None:
        getattr(self.ours, method)(self.ours[key], *args)
        getattr(self.book, method)(self.book.flows[key], *args)

    def known(self, key: str) -> bool:
        return key in self.book.flows

    @rule(key=KEYS, quantum=AMOUNTS)
    def add_or_reweight(self, key: str, quantum: float) -> None:
        if self.known(key):
            self.both("reweight", key, quantum)
        else:
            self.ours.add(key, quantum)
            self.book.add(key, quantum)

    @rule(key=KEYS, cost=AMOUNTS)
    def offer(self, key: str, cost: float) -> None:
        if self.known(key):
            self.both("offer", key, cost)

    @rule(costs=st.lists(st.none() | AMOUNTS, min_size=1, max_size=12), owed=st.booleans())
    def serve(self, costs: list[float | None], owed: bool) -> None:
        for head in costs:
            self.serve_one(head, owed, 1.0)

    @rule(head=st.none() | AMOUNTS, owed=st.booleans(), charged=st.sampled_from((0.0, 0.5, 2.0)))
    def charge_another_cost(self, head: float | None, owed: bool, charged: float) -> None:
        self.serve_one(head, owed, charged)

    def serve_one(self, head: float | None, owed: bool, charged: float) -> None:
        chosen = self.ours.choose(self.now, PATIENCE)
        expected = self.book.choose(self.now, PATIENCE)
        assert (chosen and chosen.key) == (expected and expected.key)
        if chosen is not None and expected is not None:
            assert chosen.deficit == expected.deficit
            cost = (chosen.head or 0.0) * charged
            self.ours.serve(chosen, cost, head, owed)
            self.book.serve(expected, cost, head, owed)

    @rule(key=KEYS, difference=st.integers(-100, 100).map(lambda eighths: eighths / 8))
    def settle(self, key: str, difference: float) -> None:
        if self.known(key):
            self.both("settle", key, difference)

    @rule(key=KEYS)
    def drop(self, key: str) -> None:
        if self.known(key):
            self.both("drop", key)

    @rule(key=KEYS)
    def remove(self, key: str) -> None:
        if self.known(key):
            self.both("remove", key)

    @precondition(lambda self: self.book.waiting)
    @rule(passed=st.sampled_from((1.0, 2.0, 3.0)))
    def expire(self, passed: float) -> None:
        self.now += passed
        expired = self.ours.expire(self.now)
        assert [flow.key for flow in expired] == [f.key for f in self.book.expire(self.now)]

    @invariant()
    def they_agree(self) -> None:
        assert self.ours.deadline == self.book.deadline
        assert {flow.key for flow in self.ours} == set(self.book.flows)
        for flow in self.ours:
            twin = self.book.flows[flow.key]
            assert flow.head == twin.head
            assert flow.is_backlogged == self.book.is_backlogged(twin)


BesideTheTextbook.TestCase.settings = settings(stateful_step_count=50)
TestBesideTheTextbook = BesideTheTextbook.TestCase
