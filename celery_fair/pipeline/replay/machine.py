"""Workers on a virtual clock: the worker's own rules (`celery_fair.core`), counting slots.

Time jumps from event to event: a message is published, a task ends, a leash has a token again,
workers come or go, a queue's options change. After each, what can be started is started; which, the
worker's chooser says, with the worker's gates and prices, and by key the worker's tags.

Workers that consume the same queues are one pool, which has all of their slots. Unlike with live
workers, the broker hands out any message to any of them in no time. What a start costs from a
slot's becoming free on is the message's `handover`; the slot is taken meanwhile.
"""

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from heapq import heappop, heappush
from typing import NamedTuple

from celery_fair.core.chooser import Chooser, Ended
from celery_fair.core.dwrr import Flow
from celery_fair.core.gate import Gate, LocalLeash
from celery_fair.core.pricing import Price, Pricing
from celery_fair.core.window import RefillMeter
from celery_fair.pipeline.replay.line import KeyedLine, Line, Message, PlainLine, Start, Taken
from celery_fair.pipeline.replay.scenario import Fleet, Plan, Scenario

# Workers -----------------------------------------------------------------------


_ONE = Price(1.0, False)
_PATIENCE = RefillMeter().patience
"""Seconds; a worker goes on to learn it."""


class Running:
    """What runs, by queue, at all workers: caps go by it."""

    def __init__(self) -> None:
        self.ended_count = 0
        self._by_queue: Counter[str] = Counter()

    def of(self, queue: str) -> int:
        return self._by_queue[queue]

    def begin(self, queue: str) -> None:
        self._by_queue[queue] += 1

    def end(self, queue: str) -> None:
        self._by_queue[queue] -= 1
        self.ended_count += 1


class Work(NamedTuple):
    """A message that runs in a slot."""

    pool: "Pool"
    flow: Flow
    taken: Taken
    price: Price


class Pool:
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
        targets = scenario.targets
        strict = targets is None
        self.chooser = Chooser(running, strict, scenario.max_wait, self._pricing, targets=targets)
        self._aims = self.chooser.urgency
        self._flows: dict[str, Flow] = {}
        self._gates: dict[str, Gate[Plan]] = {}
        self._heads: dict[Flow, tuple[Message, Price]] = {}

    def consumes(self, queue: str) -> bool:
        """Whether a queue is one of its own."""
        return not self._queues or queue in self._queues

    def resize(self, slots: int, _at: float) -> None:
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
            if head is not None:
                self.offer(queue, head[0], now)
            return
        gate.change(plan, leash)
        if self._aims is not None:
            self._aims.aim(queue, plan.target, now)
        self.chooser.reweight(flow, plan.quantum)
        self.chooser.regate(flow, now)

    def offer(self, queue: str, head: Message | None, now: float) -> None:
        """The head of a queue is this one now: another pool took the one before, or none was."""
        flow = self._flows[queue]
        known = self._heads.get(flow)
        if head is None:
            if known is not None:
                del self._heads[flow]
                self.chooser.served(flow, 0.0, None, queue in self.backlogged, None, now)
        elif known is None or known[0] is not head:
            price = self._price_of(head)
            self._heads[flow] = head, price
            self.chooser.offer(flow, price.cost, self._since(queue, head, now), now)

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
            since = self._since(flow.key, head, now)
        if self._aims is not None:
            self._aims.started(flow, now - taken.message.published, now, taken.is_first)
        self.chooser.served(flow, price.cost, cost, flow.key in self.backlogged, since, now)
        self.free -= 1
        return Work(self, flow, taken, price)

    def _since(self, queue: str, head: Message, now: float) -> float:
        """Since when a head counts as waiting."""
        if self._aims is None:
            return head.arrives
        # By key the next one to come may be of a key that had none.
        return head.published if self._gates[queue].options.usual is None else now

    def end(self, work: Work) -> float:
        """A message has ended; return what it cost."""
        self.free += 1
        message = work.taken.message
        seconds = message.runtime
        if self._aims is not None:
            self._aims.floors.run_times[work.flow.key].add(seconds)
        if self._pricing is None:
            return 1.0
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


# The clock ---------------------------------------------------------------------


_Turn = tuple[float, Callable[[float], None]]
"""When something is to happen besides messages, and what."""


class Machine:
    """Replays one trace under one scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._running = Running()
        fleets = scenario.fleets or (Fleet((), ((-math.inf, scenario.concurrency),)),)
        self.pools = [Pool(scenario, fleet.queues, self._running) for fleet in fleets]
        turns: list[_Turn] = [
            (at, partial(pool.resize, slots))
            for pool, fleet in zip(self.pools, fleets, strict=True)
            for at, slots in fleet.slots
        ]
        turns += [
            (each.at, partial(self._replan, each.queue, each.plan)) for each in scenario.changes
        ]
        self._turns = deque(sorted(turns, key=lambda turn: turn[0]))
        self._plans: dict[str, Plan] = {}
        self._lines: dict[str, Line] = {}
        self._keyed: list[tuple[str, KeyedLine]] = []
        self._pools_of: dict[str, list[Pool]] = {}
        self._leashes: dict[str, LocalLeash | None] = {}
        self._work: list[tuple[float, int, Work]] = []  # a heap, by end
        self._started = 0
        self._made: list[Start] = []
        self._overhead = scenario.overhead

    def run(self, trace: Iterable[Message]) -> Iterator[Start]:
        """Yield the starts, in the order in which slots were given away."""
        made = self._made
        for message in trace:
            now = message.published + message.transit
            while (at := self._next()) < now:
                self._happen(at)
            self._take_turns(now)
            if self._arrive(message, now):
                self._dispatch(now)
            if made:
                yield from made
                made.clear()
        while (at := self._next()) < math.inf:
            self._happen(at)
            yield from made
            made.clear()

    def _happen(self, now: float) -> None:
        """Everything that is to happen by now, besides messages."""
        work = self._work
        while work and work[0][0] <= now:
            self._finish(heappop(work)[2], now)
        self._take_turns(now)
        for queue, line in self._keyed:
            if line.wake_at <= now:
                self._look_at(queue, line, now)
        self._dispatch(now)

    def _next(self) -> float:
        """When something happens again besides messages."""
        at = self._work[0][0] if self._work else math.inf
        if self._turns and self._turns[0][0] < at:
            at = self._turns[0][0]
        for pool in self.pools:
            # With no slot free an open gate changes nothing, and would be asked for ever.
            if pool.free > 0 and (wake_at := pool.chooser.wake_at) < at:
                at = wake_at
        for _, line in self._keyed:
            at = min(at, line.wake_at)
        return at

    # What happens besides messages ---------------------------------------------

    def _take_turns(self, now: float) -> None:
        while self._turns and self._turns[0][0] <= now:
            at, happens = self._turns.popleft()
            happens(at)

    def _replan(self, queue: str, plan: Plan, at: float) -> None:
        line = self._declared(queue, at)
        self._plans[queue] = plan
        leash = self._leashes[queue]
        if plan.rate is None:
            leash = None
        elif leash is None:
            leash = LocalLeash(plan.rate, plan.burst, at)
        else:
            leash.change(plan.rate, plan.burst, at)
        self._leashes[queue] = leash
        for pool in self._pools_of[queue]:
            pool.change(queue, plan, leash, at)
        if isinstance(line, KeyedLine) and plan.usual is not None:
            line.change(plan)
            self._look_at(queue, line, at)

    # Messages -------------------------------------------------------------------

    def _declared(self, queue: str, now: float) -> Line:
        line = self._lines.get(queue)
        if line is not None:
            return line
        plan = self._plans[queue] = self._scenario.plan(queue)
        leash = None if plan.rate is None else LocalLeash(plan.rate, plan.burst, now)
        self._leashes[queue] = leash
        self._pools_of[queue] = [pool for pool in self.pools if pool.consumes(queue)]
        for pool in self._pools_of[queue]:
            pool.add(queue, plan, leash)
        if plan.usual is None:
            line = PlainLine()
        else:
            line = KeyedLine(queue, plan)
            self._keyed.append((queue, line))
        self._lines[queue] = line
        return line

    def _arrive(self, message: Message, now: float) -> bool:
        """Take in a message; return whether it can change what is chosen."""
        queue = message.queue
        line = self._lines.get(queue) or self._declared(queue, now)
        news = line.put(message)
        ahead = self._plans[queue].ahead
        if ahead is not None and len(line) >= ahead:
            for pool in self._pools_of[queue]:
                pool.backlogged.add(queue)
        if not news:
            return False
        self._look_at(queue, line, now)
        return True

    def _look_at(self, queue: str, line: Line, now: float) -> None:
        """The queue's head may be another one by now."""
        head = line.head(now)
        for pool in self._pools_of[queue]:
            pool.offer(queue, head, now)

    def _dispatch(self, now: float) -> None:
        """Start what can be started."""
        for pool in self.pools:
            while pool.free > 0 and (flow := pool.choose(now)) is not None:
                queue = flow.key
                line = self._lines[queue]
                taken = line.take(now, pool.usual)
                head = line.head(now)
                self._start(pool.start(flow, taken, head, now), now)
                pools = self._pools_of[queue]
                if len(pools) > 1:
                    for other in pools:
                        if other is not pool:
                            other.offer(queue, head, now)

    def _start(self, work: Work, now: float) -> None:
        message = work.taken.message
        at = now + (message.handover if self._overhead is None else self._overhead)
        self._running.begin(message.queue)
        self._started += 1
        heappush(self._work, (at + message.runtime, self._started, work))
        self._made.append(Start(message, at))

    def _finish(self, work: Work, now: float) -> None:
        message = work.taken.message
        self._running.end(message.queue)
        cost = work.pool.end(work)
        line = self._lines[message.queue]
        if line.ended(work.taken, cost):
            self._look_at(message.queue, line, now)
