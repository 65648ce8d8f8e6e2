"""Workers on a virtual clock: the worker's own rules (`celery_fair.core`), counting slots.

Time jumps from event to event: a message is published, a task ends, a leash has a token again,
workers come or go, a queue's options change. After each, what can be started is started; which, the
worker's chooser says, with the worker's gates and prices, and by key the worker's tags.

Workers that consume the same queues are one crew, which has all of their slots. Unlike with live
workers, the broker hands out any message to any of them in no time. What a start costs from a
slot's becoming free on is the message's `handover`; the slot is taken meanwhile.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from heapq import heappop, heappush

from celery_fair.core.gate import LocalLeash
from celery_fair.pipeline.replay.crew import Crew, Running, Work
from celery_fair.pipeline.replay.line import KeyedLine, Line, PlainLine
from celery_fair.pipeline.replay.message import Message, Start
from celery_fair.pipeline.replay.scenario import Fleet, Plan, Scenario

__all__ = ["Machine", "Message", "Start"]

_Turn = tuple[float, Callable[[float], None]]
"""When something is to happen besides messages, and what."""


class Machine:
    """Replays one trace under one scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._running = Running()
        fleets = scenario.fleets or (Fleet((), ((-math.inf, scenario.concurrency),)),)
        self._crews = [Crew(scenario, fleet.queues, self._running) for fleet in fleets]
        self._slots = [
            (at, partial(_resize, crew, slots))
            for crew, fleet in zip(self._crews, fleets, strict=True)
            for at, slots in fleet.slots
        ]
        self._turns: deque[_Turn] = deque()
        self._plans: dict[str, Plan] = {}
        self._lines: dict[str, Line] = {}
        self._keyed: list[tuple[str, KeyedLine]] = []
        self._crews_of: dict[str, list[Crew]] = {}
        self._leashes: dict[str, LocalLeash | None] = {}
        self._work: list[tuple[float, int, Work]] = []  # a heap, by end
        self._started = 0
        self._made: list[Start] = []
        self._overhead = scenario.overhead

    def run(self, trace: Iterable[Message]) -> Iterator[Start]:
        """Yield the starts, in the order in which slots were given away."""
        begun, made = False, self._made
        for message in trace:
            now = message.published + message.transit
            if not begun:
                begun = True
                self._plan_turns(now)
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
        for crew in self._crews:
            # With no slot free an open gate changes nothing, and would be asked for ever.
            if crew.free > 0 and (wake_at := crew.chooser.wake_at) < at:
                at = wake_at
        for _, line in self._keyed:
            at = min(at, line.wake_at)
        return at

    # What happens besides messages ---------------------------------------------

    def _plan_turns(self, begin: float) -> None:
        turns: list[_Turn] = [*self._slots]
        turns += [
            (each.at, partial(self._replan, each.queue, each.plan))
            for each in self._scenario.changes
        ]
        turns += [
            (begin + at, partial(self._pause, queue, paused))
            for queue, plan in self._scenario.queues.items()
            for pause in plan.pauses
            for at, paused in zip(pause, (True, False), strict=True)
        ]
        self._turns.extend(sorted(turns, key=lambda turn: turn[0]))

    def _take_turns(self, now: float) -> None:
        while self._turns and self._turns[0][0] <= now:
            at, happens = self._turns.popleft()
            happens(at)

    def _pause(self, queue: str, paused: bool, at: float) -> None:
        self._declared(queue, at)
        for crew in self._crews_of[queue]:
            crew.pause(queue, paused, at)

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
        for crew in self._crews_of[queue]:
            crew.change(queue, plan, leash, at)
        if isinstance(line, KeyedLine) and plan.usual is not None:
            line.change(plan)
            self._look_at(queue, line, at)

    # Messages -------------------------------------------------------------------

    def _declared(self, queue: str, now: float) -> Line:
        line = self._lines.get(queue)
        if line is None:
            line = self._lines[queue] = self._declare(queue, now)
        return line

    def _declare(self, queue: str, now: float) -> Line:
        plan = self._plans[queue] = self._scenario.plan(queue)
        leash = None if plan.rate is None else LocalLeash(plan.rate, plan.burst, now)
        self._leashes[queue] = leash
        self._crews_of[queue] = [crew for crew in self._crews if crew.consumes(queue)]
        for crew in self._crews_of[queue]:
            crew.add(queue, plan, leash)
        if plan.usual is None:
            return PlainLine()
        keyed = KeyedLine(queue, plan)
        self._keyed.append((queue, keyed))
        return keyed

    def _arrive(self, message: Message, now: float) -> bool:
        """Take in a message; return whether it can change what is chosen."""
        queue = message.queue
        line = self._lines.get(queue) or self._declared(queue, now)
        news = line.put(message)
        ahead = self._plans[queue].ahead
        if ahead is not None and len(line) >= ahead:
            for crew in self._crews_of[queue]:
                crew.backlogged.add(queue)
        if not news:
            return False
        self._look_at(queue, line, now)
        return True

    def _look_at(self, queue: str, line: Line, now: float) -> None:
        """The queue's head may be another one by now."""
        head = line.head(now)
        for crew in self._crews_of[queue]:
            crew.offer(queue, head, now)

    def _dispatch(self, now: float) -> None:
        """Start what can be started."""
        for crew in self._crews:
            while crew.free > 0 and (flow := crew.choose(now)) is not None:
                queue = flow.key
                line = self._lines[queue]
                taken = line.take(now, crew.usual)
                head = line.head(now)
                self._start(crew.start(flow, taken, head, now), now)
                crews = self._crews_of[queue]
                if len(crews) > 1:
                    for other in crews:
                        if other is not crew:
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
        cost = work.crew.end(work)
        line = self._lines[message.queue]
        if line.ended(work.taken, cost):
            self._look_at(message.queue, line, now)


def _resize(crew: Crew, slots: int, at: float) -> None:  # noqa: ARG001
    crew.resize(slots)
