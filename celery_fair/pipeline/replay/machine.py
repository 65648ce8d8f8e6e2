"""A worker on a virtual clock: the worker's own rules (`celery_fair.core.chooser`), counting slots.

Time jumps from event to event: a message is published, a task ends, a leash has a token again.
After each, what can be started is started; which, the worker's chooser says, with the worker's
gates and prices.

Unlike with a live worker, the broker hands a message over in no time, and all slots belong to one
worker. `Scenario.overhead` stands for the time that handing over takes.
"""

import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import NamedTuple

from celery_fair.core.chooser import Chooser, Ended
from celery_fair.core.dwrr import Flow
from celery_fair.core.gate import Gate, LocalLeash
from celery_fair.core.pricing import Price, Pricing
from celery_fair.pipeline.replay.scenario import Plan, Scenario

__all__ = ["Machine", "Message", "Start"]

_ONE = Price(1.0, False)
_PATIENCE = 0.0  # nothing is ever owed: what has been published is here


class Message(NamedTuple):
    """One of the trace; the trace is in the order of `published`."""

    published: float
    queue: str
    task: str
    cost_key: str | None
    runtime: float


class Start(NamedTuple):
    """One of the replay."""

    message: Message
    at: float


class _Slots:
    """What runs, by queue."""

    def __init__(self, count: int) -> None:
        self.free = count
        self.landed = 0
        self._by_queue: Counter[str] = Counter()

    def of(self, queue: str) -> int:
        return self._by_queue[queue]

    def fill(self, queue: str) -> None:
        self.free -= 1
        self._by_queue[queue] += 1

    def clear(self, queue: str) -> None:
        self.free += 1
        self.landed += 1
        self._by_queue[queue] -= 1


class Machine:
    """Replays one trace under one scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._pricing = Pricing() if scenario.cost == "runtime" else None
        self._slots = _Slots(scenario.concurrency)
        # Without classes strict priority is none.
        self._chooser = Chooser(self._slots, True, scenario.max_wait, self._pricing)
        self._flows: dict[str, Flow] = {}
        self._gates: dict[str, Gate[Plan]] = {}
        self._turns: deque[tuple[float, str, bool]] = deque()  # pauses that begin or end
        self._waiting: dict[Flow, deque[Message]] = {}
        self._heads: dict[Flow, Price] = {}
        self._running: list[tuple[float, int, Flow, Message, Price]] = []  # a heap, by end
        self._started = 0

    def run(self, trace: Iterable[Message]) -> Iterator[Start]:
        """Yield the starts, in order."""
        begun = False
        for message in trace:
            if not begun:
                begun = True
                self._plan_pauses(message.published)
            yield from self._until(message.published)
            self._take_turns(message.published)
            self._arrive(message)
            yield from self._dispatch(message.published)
        yield from self._until(math.inf)

    def _until(self, end: float) -> Iterator[Start]:
        """Everything that happens before `end`."""
        while (now := self._next()) < end:
            while self._running and self._running[0][0] <= now:
                self._finish()
            self._take_turns(now)
            yield from self._dispatch(now)

    def _next(self) -> float:
        ends = self._running[0][0] if self._running else math.inf
        turns = self._turns[0][0] if self._turns else math.inf
        # With no slot free an open gate changes nothing, and would be asked for ever.
        return min(ends, turns, self._chooser.wake_at if self._slots.free else math.inf)

    def _plan_pauses(self, begin: float) -> None:
        turns = [
            (begin + at, queue, paused)
            for queue, plan in self._scenario.queues.items()
            for pause in plan.pauses
            for at, paused in zip(pause, (True, False), strict=True)
        ]
        self._turns.extend(sorted(turns))

    def _take_turns(self, now: float) -> None:
        while self._turns and self._turns[0][0] <= now:
            self._pause(*self._turns.popleft())

    def _pause(self, at: float, queue: str, paused: bool) -> None:
        flow = self._flows.get(queue) or self._declare(queue, at)
        self._gates[queue].pause(paused)
        self._chooser.regate(flow, at)

    def _arrive(self, message: Message) -> None:
        queue, now = message.queue, message.published
        flow = self._flows.get(queue) or self._declare(queue, now)
        self._waiting[flow].append(message)
        if len(self._waiting[flow]) == 1:
            cost = self._price(flow)
            assert cost is not None
            self._chooser.offer(flow, cost, now, now)

    def _declare(self, queue: str, now: float) -> Flow:
        plan = self._scenario.plan(queue)
        leash = None if plan.rate is None else LocalLeash(plan.rate, plan.burst, now)
        gate = self._gates[queue] = Gate(plan, leash)
        flow = self._flows[queue] = self._chooser.add(queue, plan.quantum, plan.level, gate)
        self._waiting[flow] = deque()
        return flow

    def _price(self, flow: Flow) -> float | None:
        """What the queue's head costs by now."""
        waiting = self._waiting[flow]
        if not waiting:
            return None
        head = waiting[0]
        price = _ONE if self._pricing is None else self._pricing.price(head.task, head.cost_key)
        self._heads[flow] = price
        return price.cost

    def _dispatch(self, now: float) -> Iterator[Start]:
        while self._slots.free:
            self._chooser.advance(now)
            flow = self._chooser.choose(now, _PATIENCE)
            if flow is None:
                return
            yield self._start(flow, now)

    def _start(self, flow: Flow, now: float) -> Start:
        waiting = self._waiting[flow]
        message, price = waiting.popleft(), self._heads[flow]
        since = waiting[0].published if waiting else None
        self._chooser.served(flow, price.cost, self._price(flow), False, since, now)
        self._slots.fill(message.queue)
        self._started += 1
        end = now + message.runtime + self._scenario.overhead
        heappush(self._running, (end, self._started, flow, message, price))
        return Start(message, now)

    def _finish(self) -> None:
        _, _, flow, message, price = heappop(self._running)
        self._slots.clear(message.queue)
        if self._pricing is not None:
            ended = Ended(flow, message.task, message.cost_key, price, message.runtime)
            self._chooser.ended([ended], self._price)
