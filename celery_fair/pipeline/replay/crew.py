"""The workers of one fleet, as one: the worker's own rules (`core/chooser.py`), and slots."""

from collections import Counter
from typing import NamedTuple

from celery_fair.core.chooser import Chooser, Ended
from celery_fair.core.dwrr import Flow
from celery_fair.core.gate import Gate, LocalLeash
from celery_fair.core.pricing import Price, Pricing
from celery_fair.core.window import RefillMeter
from celery_fair.pipeline.replay.line import Taken
from celery_fair.pipeline.replay.message import Message
from celery_fair.pipeline.replay.scenario import Plan, Scenario

__all__ = ["Crew", "Running", "Work"]

_ONE = Price(1.0, False)
_PATIENCE = RefillMeter().patience
"""Seconds; a worker goes on to learn it."""


class Running:
    """What runs, by queue, at all workers: caps go by it."""

    def __init__(self) -> None:
        self.landed = 0
        self._by_queue: Counter[str] = Counter()

    def of(self, queue: str) -> int:
        return self._by_queue[queue]

    def begin(self, queue: str) -> None:
        self._by_queue[queue] += 1

    def end(self, queue: str) -> None:
        self._by_queue[queue] -= 1
        self.landed += 1


class Work(NamedTuple):
    """A message that runs in a slot."""

    crew: "Crew"
    flow: Flow
    taken: Taken
    price: Price


class Crew:
    """Chooses among its queues' heads whenever a slot is free.

    Arguments:
        queues: those that it consumes; empty: all.

    Attributes:
        free: slots that are; below zero while more run than there are slots by now.
        backlogged: queues that have filled their windows: if one runs dry it is waited for, and is
            none of these any more if nothing comes (`celery_fair.core.window`).
    """

    def __init__(self, scenario: Scenario, queues: tuple[str, ...], running: Running) -> None:
        self.free = 0
        self.backlogged: set[str] = set()
        self._queues = frozenset(queues)
        self._slots = 0
        self._pricing = Pricing() if scenario.cost == "runtime" else None
        # Without classes strict priority is none.
        self.chooser = Chooser(running, True, scenario.max_wait, self._pricing)
        self._flows: dict[str, Flow] = {}
        self._gates: dict[str, Gate[Plan]] = {}
        self._heads: dict[Flow, tuple[Message, Price]] = {}

    def consumes(self, queue: str) -> bool:
        """Whether a queue is one of its own."""
        return not self._queues or queue in self._queues

    def resize(self, slots: int) -> None:
        """Have another number of slots."""
        self.free += slots - self._slots
        self._slots = slots

    # Queues ---------------------------------------------------------------------

    def add(self, queue: str, plan: Plan, leash: LocalLeash | None) -> None:
        """Consume a queue; what waits there is to be offered."""
        gate = self._gates[queue] = Gate(plan, leash)
        self._flows[queue] = self.chooser.add(queue, plan.quantum, plan.level, gate)

    def change(self, queue: str, plan: Plan, leash: LocalLeash | None, now: float) -> None:
        """Go on with other options of a queue."""
        gate, flow = self._gates[queue], self._flows[queue]
        if plan.level != gate.options.level:
            head = self._heads.pop(flow, None)
            self.chooser.remove(flow, now)
            self.add(queue, plan, leash)
            self._gates[queue].pause(gate.paused)
            if head is not None:
                self.offer(queue, head[0], now)
            return
        gate.change(plan, leash)
        self.chooser.reweight(flow, plan.quantum)
        self.chooser.regate(flow, now)

    def pause(self, queue: str, paused: bool, now: float) -> None:
        """Start nothing of a queue, or end that."""
        self._gates[queue].pause(paused)
        self.chooser.regate(self._flows[queue], now)

    def offer(self, queue: str, head: Message | None, now: float) -> None:
        """The head of a queue is this one now: another crew took the one before, or none was."""
        flow = self._flows[queue]
        known = self._heads.get(flow)
        if head is None:
            if known is not None:
                del self._heads[flow]
                self.chooser.served(flow, 0.0, None, queue in self.backlogged, None, now)
        elif known is None or known[0] is not head:
            price = self._price_of(head)
            self._heads[flow] = head, price
            self.chooser.offer(flow, price.cost, head.arrives, now)

    # Messages -------------------------------------------------------------------

    @property
    def usual(self) -> float:
        """What a key is charged for a message of which nothing is known."""
        return 1.0 if self._pricing is None else self._pricing.usual

    def choose(self, now: float) -> Flow | None:
        """Return whose message is to start, if any is."""
        scheduler = self.chooser.scheduler
        if scheduler.deadline is not None and scheduler.deadline <= now:
            for flow in scheduler.expire(now):
                self.backlogged.discard(flow.key)
        self.chooser.advance(now)
        return self.chooser.choose(now, _PATIENCE)

    def start(self, flow: Flow, taken: Taken, head: Message | None, now: float) -> Work:
        """The chosen queue's message gets a slot; another one, or none, is the head then."""
        price = self._heads[flow][1]
        cost = since = None
        if head is None:
            del self._heads[flow]
        else:
            next_price = self._price_of(head)
            self._heads[flow] = head, next_price
            cost = next_price.cost
            since = head.arrives if self.chooser.ages else now
        self.chooser.served(flow, price.cost, cost, flow.key in self.backlogged, since, now)
        self.free -= 1
        return Work(self, flow, taken, price)

    def end(self, work: Work) -> float:
        """A message has ended; return what it cost."""
        self.free += 1
        message = work.taken.message
        if self._pricing is None:
            return 1.0
        seconds = message.runtime
        ended = Ended(work.flow, message.task, message.cost_key, work.price, seconds)
        self.chooser.ended([ended], self._price)
        return seconds

    def _price_of(self, message: Message) -> Price:
        if self._pricing is None:
            return _ONE
        return self._pricing.price(message.task, message.cost_key)

    def _price(self, flow: Flow) -> float | None:
        """What a queue's head costs by now."""
        known = self._heads.get(flow)
        if known is None:
            return None
        price = self._price_of(known[0])
        self._heads[flow] = known[0], price
        return price.cost
