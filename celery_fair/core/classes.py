"""Strict priority between classes of queues, deficit round robin inside a class.

A class is a whole number, the higher the more urgent. `ClassScheduler.choose` asks the highest
class first; a lower one is asked only when no higher one has a message *here*. What a higher class
is owed (see `celery_fair.core.dwrr`) counts as here while it is waited for, or every refill would
let a lower message slip in.

Strict priority starves low messages for as long as high ones keep coming. Ageing bounds that: a
message that has waited longer than `max_wait` is treated as one class higher, after twice as long
as two, up to the highest class that is in use; there it takes its turn like the others.
"""

import math
from heapq import heappop, heappush

from celery_fair.core.dwrr import DeficitRoundRobin, Flow


class ClassScheduler:
    """One `DeficitRoundRobin` a class; see there. `of` has the methods about one flow."""

    def __init__(self) -> None:
        self._classes: dict[int, DeficitRoundRobin] = {}
        self._order: list[tuple[int, DeficitRoundRobin]] = []  # the highest first
        self._of: dict[Flow, DeficitRoundRobin] = {}
        self._keys: set[str] = set()
        self._nobodys = DeficitRoundRobin()

    @property
    def deadline(self) -> float | None:
        """When to call `expire`; None if nobody is waited for."""
        deadlines = [d for _, drr in self._order if (d := drr.deadline) is not None]
        return min(deadlines) if deadlines else None

    def of(self, flow: Flow) -> DeficitRoundRobin:
        """Return the scheduler of a flow's class; of one that was removed, that of nobody."""
        return self._of.get(flow, self._nobodys)

    def add(self, key: str, quantum: float, level: int = 0) -> Flow:
        """Add an idle flow to class `level`."""
        if key in self._keys:
            raise ValueError(f"flow {key!r} is there already")
        flow = Flow(key, quantum)
        self._of[flow] = self._class(level)
        self._keys.add(key)
        return flow

    def move(self, flow: Flow, level: int) -> None:
        """Put a flow into another class, with its head, without its credit."""
        to = self._class(level)
        before = self._of[flow]
        if to is before:
            return
        held = flow.is_held
        before.remove(flow)
        to.admit(flow)
        if held:
            to.hold(flow)
        self._of[flow] = to

    def remove(self, flow: Flow) -> None:
        self._of.pop(flow).remove(flow)
        self._keys.remove(flow.key)

    def choose(self, now: float, patience: float) -> Flow | None:
        """Return a flow of the highest class that has one, or None; see the module's text."""
        for _, drr in self._order:
            flow = drr.choose(now, patience)
            if flow is not None:
                return flow
            if drr.deadline is not None:
                return None
        return None

    def serve(self, flow: Flow, cost: float, head: float | None, owed: bool = False) -> None:
        drr = self._of.get(flow)
        if drr is not None:  # it may have been removed while it was served
            drr.serve(flow, cost, head, owed)

    def expire(self, now: float) -> list[Flow]:
        return [
            flow for _, drr in self._order if drr.deadline is not None for flow in drr.expire(now)
        ]

    def overdue(self, now: float) -> list[Flow]:
        return [flow for _, drr in self._order for flow in drr.overdue(now)]

    def level(self, flow: Flow) -> int:
        """Return the class that a flow is in now."""
        return next(level for level, drr in self._order if drr is self._of[flow])

    def above(self, flow: Flow) -> list[Flow]:
        """Return the flows of higher classes that have a message, or are owed one."""
        level = self.level(flow)
        higher = [drr for number, drr in self._order if number > level]
        return [
            each
            for drr in higher
            for each, its in self._of.items()
            if its is drr and each.is_backlogged
        ]

    def _class(self, level: int) -> DeficitRoundRobin:
        if level not in self._classes:
            self._classes[level] = DeficitRoundRobin()
            self._order = sorted(self._classes.items(), reverse=True)
        return self._classes[level]


class Ageing:
    """Says which class a flow's head belongs to by now, and when that changes.

    Arguments:
        scheduler: moves the flows.
        max_wait: seconds of waiting that count for one class, above zero.
    """

    def __init__(self, scheduler: ClassScheduler, max_wait: float) -> None:
        self._scheduler = scheduler
        self._max_wait = max_wait
        self._base: dict[Flow, int] = {}
        self._top = 0
        self._since: dict[Flow, float] = {}
        self._rises: list[tuple[float, int, Flow]] = []  # a heap; may hold what has been overtaken
        self._next: dict[Flow, float] = {}  # a flow's earliest entry there
        self._count = 0

    def add(self, flow: Flow, level: int) -> None:
        """A flow was added to the scheduler, in class `level`."""
        self._base[flow] = level
        if level > self._top:
            self._top = level
            for waiting, since in self._since.items():  # who was on top may rise now
                self._file(waiting, since)

    def remove(self, flow: Flow) -> None:
        """It was removed."""
        self._base.pop(flow, None)
        self._since.pop(flow, None)
        self._next.pop(flow, None)
        self._top = max(self._base.values(), default=0)

    def heads(self, flow: Flow, since: float, now: float, is_here: bool = True) -> None:
        """The flow's head is another message, which waits since `since`; here or at the broker."""
        if flow in self._base:  # it may have been removed while it was served
            self._since[flow] = since
            self._place(flow, now)

    def runs_empty(self, flow: Flow, owed: bool = False) -> None:
        """The flow has no head; what it may be owed has not waited yet."""
        if self._since.pop(flow, None) is not None:
            self._scheduler.move(flow, self._base[flow])

    def rise(self, now: float) -> None:
        """Move every flow whose head has waited for another `max_wait`."""
        while self._rises and self._rises[0][0] <= now:
            at, _, flow = heappop(self._rises)
            if self._next.get(flow) == at:
                del self._next[flow]
                if flow in self._since:
                    self._place(flow, now)

    def _place(self, flow: Flow, now: float) -> None:
        since, base = self._since[flow], self._base[flow]
        ages = int(min(max(0.0, now - since) / self._max_wait, self._top - base))
        self._scheduler.move(flow, base + ages)
        if base + ages < self._top:
            # Above `now` in any case: rounding must not bring it back at once, for ever.
            at = since + (ages + 1) * self._max_wait
            self._file(flow, max(at, math.nextafter(now, math.inf)))

    def _file(self, flow: Flow, at: float) -> None:
        """See to it that `rise` looks at the flow at the time `at`, or before."""
        if at < self._next.get(flow, math.inf):
            self._next[flow] = at
            self._count += 1
            heappush(self._rises, (at, self._count, flow))
