"""Which queue's message starts next: the worker's rules, and its twin's in the pipeline.

The scheduler says whose turn it is. The gate of that queue may hold it back; it is then left out
until the gate may be open again. Heads that have waited for a long time rise to a higher class
(ageing), or go first in time for their target. The cost of a message that has ended is settled, and
quanta follow the unit in which costs are counted (pricing).

The caller keeps the messages, the slots and the clock. It says what has arrived (`offer`), asks
whose turn it is while a slot is free (`advance`, `choose`), and says what came of the choice
(`served`) and what has ended (`ended`).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from celery_fair.core.classes import Ageing, ClassScheduler
from celery_fair.core.dwrr import Flow
from celery_fair.core.gate import Gate, Hold
from celery_fair.core.pricing import Price, Pricing
from celery_fair.core.targets import FLOOR, Target
from celery_fair.core.urgency import Urgency


class Running(Protocol):
    """What occupies slots now."""

    @property
    def ended_count(self) -> int:
        """How many messages have ended so far."""

    def of(self, queue: str) -> int:
        """How many messages of a queue run."""


class HoldWatch(Protocol):
    """Is told which queues are held back."""

    def held(self, queue: str, reason: str, now: float) -> None:
        """The queue has a message and may not start it."""

    def released(self, queue: str, now: float) -> None:
        """It may, or it is not there any more."""


class Ended(NamedTuple):
    """A message that has ended, and what its queue was charged for it."""

    flow: Flow
    task: str
    key: str | None
    price: Price
    seconds: float


class Targets(NamedTuple):
    """What queues with a target are chosen by; see `celery_fair.core.urgency`."""

    of: Mapping[str, Target]
    in_proportion: bool = False
    floor: float = FLOOR

    @property
    def classes(self) -> dict[str, int]:
        """A class of its own for each, by which nobody compares its share with another's."""
        return {queue: len(self.of) - rank for rank, queue in enumerate(self.of)}


def targets_of(
    queues: Mapping[str, tuple[Target | None, int]],
    in_proportion: bool = False,
    floor: float = FLOOR,
) -> Targets | None:
    """Return the targets of queues, by target and importance of each; None if there is none."""
    found = {
        name: target
        for name, (target, _) in sorted(queues.items(), key=lambda item: -item[1][1])
        if target is not None
    }
    return Targets(found, in_proportion, floor) if found else None


class Chooser:
    """Says which queue to serve next.

    Arguments:
        running: what caps go by.
        strict: whether higher classes come first; else classes do not matter.
        max_wait: seconds of waiting that count for one class, if heads age; only with `strict`.
        pricing: what costs and quanta are converted by, if costs are run times.
        watches: told of who is held back.
        targets: which queues have one, if any; not with `strict`.

    Attributes:
        urgency: lets heads go first in time, if queues have targets.
    """

    def __init__(
        self,
        running: Running,
        strict: bool = False,
        max_wait: float | None = None,
        pricing: Pricing | None = None,
        watches: Sequence[HoldWatch] = (),
        targets: Targets | None = None,
    ) -> None:
        self.scheduler = ClassScheduler()
        self._strict = strict
        self.urgency = None if targets is None else Urgency(self.scheduler, *targets)
        self._rising: Ageing | Urgency | None = self.urgency
        if strict and max_wait is not None:
            self._rising = Ageing(self.scheduler, max_wait)
        self._pricing = pricing
        self._running = running
        self._gates: dict[Flow, Gate[Any]] = {}
        self._quanta: dict[Flow, float] = {}
        self._held: dict[Flow, Hold] = {}
        self._open_at = math.inf  # the earliest time at which a leash has a token again
        self._ended_count = 0
        self._watches = tuple(watches)

    # Queues ---------------------------------------------------------------------

    def add(self, queue: str, quantum: float, level: int, gate: Gate[Any]) -> Flow:
        """Add an idle queue.

        Arguments:
            quantum: in messages, or whatever else costs are counted in.
            level: its class.

        Raises:
            ValueError: the quantum is none, or a queue of this name is there already.
        """
        flow = self.scheduler.add(queue, quantum * self._unit, level if self._strict else 0)
        self._gates[flow] = gate
        self._quanta[flow] = quantum
        if self.urgency is not None:
            self.urgency.aim(queue, gate.options.target, 0.0)  # it has no head yet
        if self._rising is not None:
            self._rising.add(flow, level)
        return flow

    def remove(self, flow: Flow, now: float) -> None:
        """Forget a queue, whatever its state."""
        del self._gates[flow], self._quanta[flow]
        if flow in self._held:
            self._release(flow, now)
            self._plan_to_open()
        if self._rising is not None:
            self._rising.remove(flow)
        self.scheduler.remove(flow)

    def reweight(self, flow: Flow, quantum: float) -> None:
        """Give a queue another quantum, from its next turn on."""
        self._quanta[flow] = quantum
        self.scheduler.of(flow).reweight(flow, quantum * self._unit)

    def regate(self, flow: Flow, now: float) -> None:
        """A queue's gate was changed: look at it again."""
        if flow in self._held:
            self._release(flow, now)
            self.scheduler.of(flow).release(flow)
            self._plan_to_open()

    def why(self, flow: Flow, now: float) -> tuple[str | None, float]:
        """Return why a queue's gate is closed, if it is, and until when at the most."""
        hold = self._held.get(flow)
        if hold is None or hold.until <= now:  # a leash that has a token again; nobody has asked
            gate = self._gates.get(flow)
            hold = None if gate is None else gate.look(now, self._running.of(flow.key))
        return hold if hold is not None else (None, now)

    def above(self, flow: Flow, now: float) -> tuple[int, list[str]]:
        """Return a queue's class as it is now, and those that go before it as more urgent."""
        level = self.scheduler.level(flow)
        if self.urgency is not None:
            return level, self.urgency.before(flow, now)
        return level, [each.key for each in self.scheduler.above(flow)]

    def ahead(self, flow: Flow) -> tuple[int, int]:
        """Return in how many rounds a flow has its turn, and after how many others in this one."""
        if self.urgency is not None and flow in self.urgency.urgent:
            return 0, 0
        scheduler = self.scheduler.of(flow)
        return scheduler.rounds_ahead(flow), scheduler.before(flow)

    # Messages -------------------------------------------------------------------

    def offer(
        self, flow: Flow, cost: float, since: float, now: float, is_here: bool = True
    ) -> None:
        """The queue's next message costs `cost`, and waits since `since`.

        Arguments:
            is_here: whether it is, or may be there for the asking.
        """
        self.scheduler.of(flow).offer(flow, cost)
        if self._rising is not None:
            self._rising.heads(flow, since, now, is_here)

    def advance(self, now: float) -> None:
        """Let time pass: gates open, heads that have waited for long rise."""
        if self._held and (now >= self._open_at or self._ended_count != self._running.ended_count):
            self._open_gates(now)
        if self._rising is not None:
            self._rising.rise(now)

    def choose(self, now: float, patience: float) -> Flow | None:
        """Return the queue whose message is to start now, or None; see `wake_at` then.

        Its gate has been passed: if no message starts, tell the gate so (`Gate.give_back`).

        Arguments:
            patience: seconds for which a message is waited for that is owed to a queue.
        """
        choose = (self.scheduler if self.urgency is None else self.urgency).choose
        gates, running = self._gates, self._running
        while (flow := choose(now, patience)) is not None:
            hold = gates[flow].hold(now, running.of(flow.key))
            if hold is None:
                return flow
            self._hold(flow, hold, now)
        return None

    @property
    def wake_at(self) -> float:
        """When to choose again although nothing has happened; infinite if there is no need to."""
        deadline = self.scheduler.deadline
        at = self._open_at if self.urgency is None else min(self._open_at, self.urgency.deadline)
        return at if deadline is None else min(at, deadline)

    def served(
        self,
        flow: Flow,
        cost: float,
        head: float | None,
        owed: bool,
        since: float | None = None,
        now: float = 0.0,
        is_here: bool = True,
    ) -> None:
        """The message of the chosen queue is gone, `cost` (0 if it did not start) is charged.

        Arguments:
            head: the cost of its next message, or None when none is here.
            owed: with no head: whether more is known to be on its way.
            since: when the next message began to wait, None when none is here; it and `now` only
                need be said where heads age.
            is_here: whether it is, or may be there for the asking.
        """
        if self.urgency is not None and cost:
            cost = self.urgency.charge(flow, cost)
        self.scheduler.serve(flow, cost, head, owed)
        if self._rising is not None:
            if since is None:
                self._rising.runs_empty(flow, owed)
            else:
                self._rising.heads(flow, since, now, is_here)

    def ended(self, ended: Sequence[Ended], price: Callable[[Flow], float | None]) -> None:
        """Learn what these took, and charge their queues the difference.

        Arguments:
            price: says what a queue's head costs by now, None if none is here.
        """
        pricing = self._pricing
        if pricing is None:
            return
        for each in ended:
            pricing.learn(each.task, each.key, each.seconds)
        self.fit(price)
        for each in ended:
            gate = self._gates.get(each.flow)
            if gate is not None and gate.options.target is None:  # else it may have cost nothing
                difference = each.seconds - pricing.charged(each.price)
                self.scheduler.of(each.flow).settle(each.flow, difference)

    def fit(self, price: Callable[[Flow], float | None]) -> None:
        """Let quanta follow the unit of costs, if it has changed; `price` as in `ended`."""
        change = None if self._pricing is None else self._pricing.fit()
        if change is None:
            return
        for flow, quantum in self._quanta.items():
            self.scheduler.of(flow).reweight(flow, quantum * self._unit)
            # Credit was granted in the old unit: so many messages, not so many seconds.
            if change.first or (change.ratio < 1 and flow.deficit > 0):
                self.scheduler.of(flow).settle(flow, flow.deficit * (1 - change.ratio))
            if change.first:
                flow.rescale(change.ratio)
            if flow.head is not None:
                head = price(flow)
                self.scheduler.of(flow).offer(flow, flow.last_cost if head is None else head)

    @property
    def _unit(self) -> float:
        return 1.0 if self._pricing is None else self._pricing.unit

    # Gates ----------------------------------------------------------------------

    def _hold(self, flow: Flow, hold: Hold, now: float) -> None:
        self._held[flow] = hold
        for watch in self._watches:
            watch.held(flow.key, hold.reason, now)
        self._open_at = min(self._open_at, hold.until)
        self.scheduler.of(flow).hold(flow)
        if self.urgency is not None:
            self.urgency.held(flow)

    def _open_gates(self, now: float) -> None:
        """Let the queues take part again whose gates may be open by now."""
        self._ended_count = self._running.ended_count
        for flow, hold in list(self._held.items()):
            if hold.reason == "leash":
                is_open = hold.until <= now
            else:
                is_open = self._gates[flow].look(now, self._running.of(flow.key)) is None
            if is_open:
                self._release(flow, now)
                self.scheduler.of(flow).release(flow)
        self._plan_to_open()

    def _plan_to_open(self) -> None:
        self._open_at = min((hold.until for hold in self._held.values()), default=math.inf)

    def _release(self, flow: Flow, now: float) -> None:
        del self._held[flow]
        for watch in self._watches:
            watch.released(flow.key, now)
        if self.urgency is not None:
            self.urgency.released(flow, now)
