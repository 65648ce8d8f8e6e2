"""Lets queues go first in time for their targets: what their messages may wait (see `targets`).

Quanta say who gets how much; people know how long something may wait. A message of a queue with a
target is *due* when its target has passed since it was published. Its queue shares by quanta, like
any other, until its head is *urgent*; then it goes before whatever is not, and costs no credit.

Who is urgent
-------------
A head is urgent `Lead.seconds` before it is due: from half of the target up to all of it. That is
learned by stochastic approximation (Robbins & Monro, 1951). A message that starts late, by less
than a tenth of its target in time, adds a twentieth of the target; one that starts in time takes
back so much that the two are even when half as many are late as may be. A queue begins with all of
its target, so that what comes once an hour is in time, too. Nothing oscillates, as it is the
message's own age that makes it urgent, and the lead only moves when that happens too late. A
message that does not say when it was published may be late by now, and is urgent at once.

Which of the urgent is first
----------------------------
What is due first (earliest deadline first; Liu & Layland, 1973). Of work that may be interrupted
that order keeps all deadlines that any order keeps; here a task runs to its end, and the order is
late by that at the most. Where there is more work than slots, it would keep no deadline at all. So
a queue whose head is *overdue* goes before all that are less important, and after all that are
more: targets are missed from the least important on. Or else in proportion: then the one is first
whose head has waited for the largest part of its target (waiting time priority; Dovrolis & al.,
1999).

Nobody starves: what something urgent goes before has its floor (see `floors`).
"""

import math
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from heapq import heappop, heappush

from celery_fair.core.classes import ClassScheduler
from celery_fair.core.dwrr import Flow
from celery_fair.core.floors import Floors
from celery_fair.core.targets import FLOOR, PERIOD, TINY, Kept, Lead, Target, arrivals, slots_needed

_REMEMBERED = 1000
"""Waits of a queue that a report goes by, at the most."""


_Started = tuple[float, float, bool]
"""A message: when it started, what it had waited, and whether the target is for it: of a queue that
is shared by key it is for the first message of each."""


class _Queue:
    """One with a target; what is known of it is kept while it is not consumed."""

    flow: Flow  # since it was consumed first

    def __init__(self, target: Target, rank: int) -> None:
        self.target = target
        self.lead = Lead(target)
        self.rank = rank  # by importance, 0 is the most important
        self.started: deque[_Started] = deque(maxlen=_REMEMBERED)
        self.since: float | None = None  # when its head was published
        self.is_here = False  # or there may be one, for the asking
        self.is_dated = True  # its messages say when they were published
        self.due = math.inf
        self.filed = math.inf  # when it is looked at again, to become urgent


class Urgency:
    """Lets a queue's head go before others in time; see the module's text.

    Arguments:
        scheduler: shares by quanta among all.
        targets: by queue, the most important one first.
        in_proportion: whether targets are missed in proportion, not by importance.
        floor: the part of the worker that each queue has at the least.

    Attributes:
        floors: is told of what runs how long.
        urgent: those whose head is.
    """

    def __init__(
        self,
        scheduler: ClassScheduler,
        targets: Mapping[str, Target],
        in_proportion: bool = False,
        floor: float = FLOOR,
    ) -> None:
        self._scheduler = scheduler
        self._queues = {
            queue: _Queue(target, rank) for rank, (queue, target) in enumerate(targets.items())
        }
        self._in_proportion = in_proportion
        self.floors = Floors(floor)
        self._of: dict[Flow, _Queue] = {}
        self.urgent: dict[Flow, _Queue] = {}
        self._awaited: dict[Flow, float] = {}  # urgent until they ran empty; until when
        self._chosen: Flow | None = None  # what was chosen, if not by quanta
        self._by_floor = False  # whether it was for its floor
        self._rises: list[tuple[float, int, _Queue]] = []  # a heap; may hold what is past
        self._count = 0

    # What changes -----------------------------------------------------------------

    def add(self, flow: Flow, level: int) -> None:
        """A flow was added to the scheduler."""
        queue = self._queues.get(flow.key)
        if queue is not None:
            queue.flow, queue.is_dated = flow, True
            self._of[flow] = queue

    def remove(self, flow: Flow) -> None:
        """It was removed."""
        self.runs_empty(flow)  # also for who is to look at its head later
        self._of.pop(flow, None)
        self._awaited.pop(flow, None)

    def aim(self, key: str, target: Target | None, now: float) -> None:
        """A queue that has a target may have another one: then its lead begins anew."""
        queue = self._queues.get(key)
        if queue is None or target is None or queue.target == target:
            return
        queue.target, queue.lead = target, Lead(target)
        if queue.since is not None:
            self._place(queue, now)

    def heads(self, flow: Flow, since: float, now: float, is_here: bool = True) -> None:
        """The flow's head is another message, which was published at the time `since`.

        Arguments:
            is_here: whether it is, or may be there for the asking, and then no older than that.
        """
        queue = self._of.get(flow)
        if queue is not None:
            queue.since, queue.is_here = since, is_here
            if self._awaited:
                self._awaited.pop(flow, None)
            self._place(queue, now)
        elif flow.is_backlogged:
            self.floors.wait(flow)

    def dated(self, flow: Flow, is_dated: bool) -> None:
        """The flow's messages say when they were published, or do not: then each is urgent."""
        queue = self._of.get(flow)
        if queue is not None:
            queue.is_dated = is_dated

    def runs_empty(self, flow: Flow, owed: bool = False) -> None:
        """The flow has no head; if it was urgent, and is owed more, that is waited for."""
        queue = self._of.get(flow)
        if queue is not None:
            queue.since = None
            if owed and flow in self.urgent:
                self._awaited[flow] = math.inf
        self._forget(flow)

    def held(self, flow: Flow) -> None:
        """A gate keeps the flow from starting what it has."""
        self._awaited.pop(flow, None)
        self._forget(flow)

    def released(self, flow: Flow, now: float) -> None:
        """It may go on, if it has a message."""
        queue = self._of.get(flow)
        if queue is not None and queue.since is not None:
            self._place(queue, now)
        elif queue is None and flow.head is not None:
            self.floors.wait(flow)

    def rise(self, now: float) -> None:
        """Let time pass: heads become urgent."""
        while self._rises and self._rises[0][0] <= now:
            at, _, queue = heappop(self._rises)
            if queue.filed == at:
                queue.filed = math.inf
                if queue.since is not None:
                    self._place(queue, now)

    def choose(self, now: float, patience: float) -> Flow | None:
        """Return the flow to be served next, or None; as `ClassScheduler.choose`."""
        self._chosen = None
        if not self.urgent:
            return None if self._waits(now, patience) else self._scheduler.choose(now, patience)
        first = _first(self.urgent.values(), self._in_proportion, now)
        floor = self.floors.next(first)
        self._by_floor = floor is not None
        self._chosen = floor or first
        return self._chosen

    @property
    def deadline(self) -> float:
        """Until when what is not urgent is held back for what is owed; infinite if it is not."""
        return min(self._awaited.values(), default=math.inf)

    def charge(self, flow: Flow, cost: float) -> float:
        """The flow's head has started, and costs so much; return what its credit is charged."""
        by_quanta = flow is not self._chosen
        if by_quanta or self._by_floor:
            self.floors.starts(flow)
        else:
            self.floors.starts_urgent(flow)
        return cost if by_quanta else 0.0

    def started(self, flow: Flow, wait: float, now: float, counts: bool = True) -> None:
        """A message has started so many seconds after its publication.

        Arguments:
            counts: whether the target is for it.
        """
        queue = self._of.get(flow)
        if queue is not None:
            if counts:
                queue.lead.started(wait)
            known = queue.started
            while known and known[0][0] < now - PERIOD:
                known.popleft()
            known.append((now, wait, counts))

    # What is asked ----------------------------------------------------------------

    def kept(self, now: float) -> list[Kept]:
        """Return how the targets of the queues that are here have been kept in the last minute.

        A head that is overdue counts as one that has started just now. From any thread.
        """
        return [_kept(each, now) for each in list(self._of.values())]

    def slots_needed(self, kept: Sequence[Kept], running: Callable[[str], int]) -> float:
        """Return how many slots it takes to keep targets, and the floors of what has none.

        That is at least as many as a queue's tasks run in, which may take longer than is looked
        back, and no more than it has had messages.
        """
        work = 0.0
        for each in kept:
            runs, known = running(each.queue), self.floors.run_times.get(each.queue)
            load = 0.0 if known is None else each.load * known.value
            work += max(runs, min(load, each.had))
        return slots_needed(work, self.floors.apart(len(self.urgent)))

    def before(self, flow: Flow, now: float) -> list[str]:
        """Return the urgent queues that go before a flow; of several, if it is one, the first."""
        if flow not in self.urgent:
            return [each.key for each in self.urgent]
        first = _first(self.urgent.values(), self._in_proportion, now)
        return [] if first is flow else [first.key]

    # ------------------------------------------------------------------------------

    def _place(self, queue: _Queue, now: float) -> None:
        assert queue.since is not None
        queue.due = queue.since + queue.target.seconds
        at = queue.due - queue.lead.seconds if queue.is_dated else -math.inf
        if at <= now:
            self.urgent[queue.flow] = queue
            self.floors.wait(queue.flow)
            return
        if queue.flow in self.urgent:
            self._forget(queue.flow)
        if at < queue.filed:
            queue.filed = at
            self._count += 1
            heappush(self._rises, (at, self._count, queue))

    def _waits(self, now: float, patience: float) -> bool:
        """Whether more of what was urgent is on its way, or every refill would let others in."""
        for flow, until in list(self._awaited.items()):
            if until <= now:
                del self._awaited[flow]
            elif until == math.inf:
                self._awaited[flow] = now + patience
        return bool(self._awaited)

    def _forget(self, flow: Flow) -> None:
        """It is not urgent, and has no floor."""
        self.urgent.pop(flow, None)
        self.floors.forget(flow)


def _kept(queue: _Queue, now: float) -> Kept:
    target = queue.target
    # What is added meanwhile is not there yet.
    known = [each for each in list(queue.started) if each[0] >= now - PERIOD]
    waits = [wait for _, wait, counts in known if counts]
    since = queue.since if queue.is_here else None
    late = 0.0 if since is None else max(0.0, now - since - target.seconds)
    if late:
        waits.append(target.seconds + late)
    waits.sort()
    count = len(waits)
    wait = waits[math.ceil(count * target.part - TINY) - 1] if waits else None
    in_time = sum(each <= target.seconds for each in waits) / count if waits else None
    had = len(known)
    within = target.seconds
    if had == _REMEMBERED:  # in less than a minute; a tenth is left out at each end
        within = min(within, 0.8 * (now - known[0][0]))
    load = arrivals([at - wait for at, wait, _ in known], within)
    load *= 1 + min(late / PERIOD, 1.0)
    lead = queue.lead.seconds
    return Kept(queue.flow, target, count, wait, in_time, lead, load, had, queue.is_dated)


def _first(urgent: Collection[_Queue], in_proportion: bool, now: float) -> Flow:
    """Return whose turn it is among the urgent."""
    if in_proportion:
        return max(urgent, key=lambda each: (now - each.due) / each.target.seconds).flow
    first = late = None
    for each in urgent:
        if each.due <= now:
            late = each if late is None or each.rank < late.rank else late
    for each in urgent:
        if late is None or each.rank < late.rank:
            first = each if first is None or each.due < first.due else first
    return (first or late).flow  # type: ignore[union-attr]
