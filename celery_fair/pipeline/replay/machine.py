"""A worker on a virtual clock: `celery_fair.core`'s scheduler and token buckets, slots that count.

Time jumps from event to event: a message is published, a task ends, a leash has a token again.
After each, what can be started is started, by the rule that the worker has: nothing is chosen
before a slot is free; a queue whose gate is closed is left out and served as soon as it opens.

What differs from a live worker: the broker hands a message over in no time, and all slots are one
worker's. `Scenario.overhead` stands for what handing over takes.
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import NamedTuple

from celery_fair.core.classes import ClassScheduler
from celery_fair.core.dwrr import Flow
from celery_fair.core.token_bucket import TokenBucket
from celery_fair.pipeline.replay.estimates import Estimates
from celery_fair.pipeline.replay.scenario import Plan, Scenario

__all__ = ["Machine", "Message", "Start"]


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


class _Queue:
    """A queue's messages, and its gate."""

    def __init__(self, flow: Flow, plan: Plan, now: float) -> None:
        self.flow = flow
        self.waiting: deque[Message] = deque()
        self.in_flight = 0
        self._cap = plan.max_in_flight
        self._bucket = TokenBucket(plan.rate, plan.burst, now) if plan.rate else None

    def passes(self, now: float) -> float | None:
        """Take a token; if the gate is closed, return until when (for ever: until an end)."""
        if self._cap is not None and self.in_flight >= self._cap:
            return math.inf
        if self._bucket is None or self._bucket.take(now):
            return None
        # Rounding may make the time of the next token fall short of it by the last bit.
        return max(self._bucket.when(now), math.nextafter(now, math.inf))


class Machine:
    """Replays one trace under one scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._scheduler = ClassScheduler()
        self._queues: dict[str, _Queue] = {}
        self._of: dict[Flow, _Queue] = {}
        self._free = scenario.concurrency
        self._running: list[tuple[float, int, _Queue, Message, float]] = []  # a heap, by end
        self._held: dict[_Queue, float] = {}
        self._estimates = Estimates() if scenario.cost == "runtime" else None
        self._started = 0

    def run(self, trace: Iterable[Message]) -> Iterator[Start]:
        """Yield the starts, in order."""
        for message in trace:
            yield from self._until(message.published)
            self._arrive(message)
            yield from self._dispatch(message.published)
        yield from self._until(math.inf)

    def _until(self, end: float) -> Iterator[Start]:
        """Everything that happens before `end`."""
        while (now := self._next()) < end:
            while self._running and self._running[0][0] <= now:
                self._finish(now)
            yield from self._dispatch(now)

    def _next(self) -> float:
        ends = self._running[0][0] if self._running else math.inf
        # With no slot free an open gate changes nothing, and would be asked for ever.
        opens = min(self._held.values(), default=math.inf) if self._free else math.inf
        return min(ends, opens)

    def _arrive(self, message: Message) -> None:
        queue = self._queues.get(message.queue) or self._declare(message)
        queue.waiting.append(message)
        if len(queue.waiting) == 1:
            self._scheduler.offer(queue.flow, self._cost(message))

    def _declare(self, message: Message) -> _Queue:
        plan = self._scenario.plan(message.queue)
        flow = self._scheduler.add(message.queue, plan.quantum, plan.level)
        queue = self._queues[message.queue] = _Queue(flow, plan, message.published)
        self._of[flow] = queue
        return queue

    def _cost(self, message: Message) -> float:
        return 1.0 if self._estimates is None else self._estimates.of(message)

    def _dispatch(self, now: float) -> Iterator[Start]:
        self._open_gates(now)
        while self._free:
            flow = self._scheduler.choose(now, 0.0)
            if flow is None:
                return
            queue = self._of[flow]
            closed = queue.passes(now)
            if closed is None:
                yield self._start(queue, now)
            else:
                self._held[queue] = closed
                self._scheduler.hold(flow)

    def _open_gates(self, now: float) -> None:
        for queue in [queue for queue, until in self._held.items() if until <= now]:
            self._release(queue)

    def _release(self, queue: _Queue) -> None:
        del self._held[queue]
        self._scheduler.release(queue.flow)

    def _start(self, queue: _Queue, now: float) -> Start:
        message = queue.waiting.popleft()
        charged = queue.flow.head
        assert charged is not None
        head = self._cost(queue.waiting[0]) if queue.waiting else None
        self._scheduler.serve(queue.flow, charged, head)
        self._free -= 1
        queue.in_flight += 1
        self._started += 1
        end = now + message.runtime + self._scenario.overhead
        heappush(self._running, (end, self._started, queue, message, charged))
        return Start(message, now)

    def _finish(self, now: float) -> None:
        _, _, queue, message, charged = heappop(self._running)
        self._free += 1
        queue.in_flight -= 1
        if self._held.get(queue) == math.inf:
            self._release(queue)
        if self._estimates is not None:
            self._scheduler.settle(queue.flow, message.runtime - charged)
            self._estimates.learn(message)
