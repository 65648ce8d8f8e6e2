"""The pipeline's twin chooses as the worker does: the same starts, in the same order, at once.

The worker's side is its dispatcher, feeds, gates and run times, as they are, on a virtual clock:
messages come into the feeds' buffers, and a pool of this file's own says what has ended.
"""

from __future__ import annotations

from heapq import heappop, heappush
from random import Random
from typing import Any

import pytest

from celery_fair.core.chooser import Chooser
from celery_fair.core.gate import Gate, LocalLeash
from celery_fair.core.pricing import Pricing
from celery_fair.core.targets import Target
from celery_fair.core.window import RefillMeter
from celery_fair.pipeline.replay.machine import Machine, Message
from celery_fair.pipeline.replay.scenario import Plan, Scenario
from celery_fair.settings import QueueOptions
from celery_fair.worker.dispatch import dispatcher
from celery_fair.worker.dispatch.dispatcher import Choice, Dispatcher
from celery_fair.worker.dispatch.prices import Costs, Runtimes, Served
from celery_fair.worker.launch.in_flight import InFlight
from celery_fair.worker.queues.delivery import message_of
from celery_fair.worker.queues.open_feeds import OpenFeeds
from celery_fair.worker.queues.reports import Reports
from tests.feeds import ports
from tests.worker.parts import Request, Shelf, Silent, shelf

STARTS = 10_000

Started = tuple[str, float, float]  # queue, published, started


class Supply:
    """A connection over which everything has come already."""

    def look(self, now: float) -> None: ...

    def rest(self, now: float) -> None: ...

    def seek(self) -> None: ...

    def flush(self) -> None: ...


class Worker:
    """The dispatcher and its parts, wired as in a worker, on a jumping clock; the launcher, too."""

    def __init__(self, scenario: Scenario, strict: bool) -> None:
        self.now = 0.0
        self.started: list[Started] = []
        self._ends: list[tuple[float, int, Any]] = []
        self._concurrency = scenario.concurrency
        pricing = Pricing() if scenario.cost == "runtime" else None
        prices: Runtimes | Costs = Costs(None)
        if pricing is not None:
            prices = Runtimes(pricing, lambda task, args, kwargs, headers: headers["key"], None)
        self.in_flight = InFlight(ended=[prices.ended] if isinstance(prices, Runtimes) else [])
        targets = scenario.targets
        self.chooser = Chooser(self.in_flight, strict, scenario.max_wait, pricing, targets=targets)
        self._wake_up = Silent()
        self._reports = Reports(self._wake_up)
        self._open = OpenFeeds(self.chooser, lambda: self.now)
        choice = Choice(self.chooser, self._open, prices, RefillMeter(), Served())
        supply: Any = Supply()
        launcher: Any = self
        self.dispatcher = Dispatcher(
            choice, self._reports, supply, launcher, clock=lambda: self.now
        )
        self._feeds: dict[str, Shelf] = {}
        self._traced: dict[str, Message] = {}
        for name, plan in scenario.queues.items():
            self._attach(name, plan)

    def _attach(self, name: str, plan: Plan) -> None:
        options = QueueOptions(
            plan.quantum,
            level=plan.level,
            target=plan.target,
            rate=plan.rate,
            burst=int(plan.burst),
            max_in_flight=plan.max_in_flight,
        )
        leash = None if plan.rate is None else LocalLeash(plan.rate, plan.burst, 0.0)
        gate = Gate(options, leash)
        flow = self.chooser.add(name, plan.quantum, plan.level, gate)
        feed = shelf(name, flow=flow, gate=gate, ports=ports()._replace(reports=self._reports))
        self._feeds[name] = feed
        self._open.add(feed)

    def _put(self, message: Message, now: float) -> None:
        id_ = str(len(self._traced))
        self._traced[id_] = message
        feed = self._feeds[message.queue]
        [delivery] = feed.put(id_, task=message.task, key=message.cost_key)
        delivery.arrive(now)

    def slots(self) -> int:
        return self._concurrency

    def offer(self, message: Any) -> Any:
        return Request(message)

    def launch(self) -> bool:
        return False

    def prepare(self, message: Any) -> None: ...

    def take(self, request: Any) -> bool:
        self.in_flight.add(request)
        traced = self._traced[request.id]
        self.started.append((traced.queue, traced.published, self.now))
        heappush(self._ends, (self.now + traced.runtime, len(self.started), request))
        return True

    def run(self, history: list[Message]) -> None:
        """Live through all of it."""
        for message in history:
            self._until(message.published)
            self.now = message.published
            self._put(message, self.now)
            self.dispatcher.run()
        self._until(float("inf"))

    def _until(self, end: float) -> None:
        wakes = self._wake_up.times
        while (now := min([at for at, *_ in self._ends[:1]] + wakes, default=end)) < end:
            self.now = max(self.now, now)
            wakes.clear()
            while self._ends and self._ends[0][0] <= self.now:
                _, _, request = heappop(self._ends)
                self.in_flight.remove(request, self._traced[request.id].runtime)
            self.dispatcher.run()


def history(seed: int, queues: list[str], seconds: tuple[float, float], load: float) -> Any:
    """Messages of queues that are backlogged now and idle then, in the order of publication."""
    random = Random(seed)
    mean = sum(seconds) / 2
    published, messages = 0.0, []
    while len(messages) < STARTS:
        queue = random.choice(queues)
        for _ in range(random.choice([1, 1, 1, 40, 400])):
            published += random.expovariate(load / mean)
            runtime = random.uniform(*seconds)
            messages.append(Message(published, queue, "t", random.choice("xyz"), runtime))
        published += random.choice([0, 0, 20 * mean])
    return messages[:STARTS]


TWO = {"a": Plan(40), "b": Plan(4)}
HISTORIES = {
    "one": (Scenario("s", concurrency=2, queues=TWO), (0.005, 0.5)),
    "runtime": (Scenario("s", cost="runtime", queues=TWO), (0.02, 0.02001)),
    "runtime 5 to 500 ms": (
        Scenario("s", concurrency=4, cost="runtime", queues=TWO),
        (0.005, 0.5),
    ),
    "leash": (Scenario("s", queues={**TWO, "c": Plan(rate=20.0, burst=5)}), (0.005, 0.05)),
    "cap": (
        Scenario("s", concurrency=4, cost="runtime", queues={**TWO, "c": Plan(8, max_in_flight=1)}),
        (0.005, 0.1),
    ),
    "targets": (
        Scenario(
            "s",
            concurrency=2,
            queues={
                "a": Plan(4, target=Target(0.95, 0.3)),
                "b": Plan(40, target=Target(0.9, 5.0), importance=1),
                "c": Plan(40),
            },
        ),
        (0.005, 0.02),
    ),
    "strict": (
        Scenario("s", concurrency=2, queues={"a": Plan(2, level=1), "b": Plan(), "c": Plan(3)}),
        (0.005, 0.1),
    ),
    "strict with ageing": (
        Scenario(
            "s",
            concurrency=2,
            cost="runtime",
            max_wait=2.0,
            queues={"a": Plan(2, level=2), "b": Plan(level=1), "c": Plan(3, rate=50.0, burst=10)},
        ),
        (0.005, 0.1),
    ),
}


@pytest.mark.parametrize("name", HISTORIES)
def test_the_same_starts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A header has the time of the wall clock; here a message comes as soon as it is published.
    here: Any = lambda item: (message_of(item).arrived, True)  # noqa: E731
    monkeypatch.setattr(dispatcher, "published_since", here)
    scenario, seconds = HISTORIES[name]
    messages = history(7, sorted(scenario.queues), seconds, 0.95 * scenario.concurrency)
    worker = Worker(scenario, strict=name.startswith("strict"))

    worker.run(messages)
    twin = [
        (start.message.queue, start.message.published, start.at)
        for start in Machine(scenario).run(messages)
    ]

    assert len(worker.started) == STARTS
    assert twin == worker.started
    waits = [at - published for _, published, at in twin]
    assert sum(wait > 0 for wait in waits) > STARTS / 2  # there was something to choose
