"""Targets: what a queue's messages may wait, such as "95% < 0.5s".

Quanta say who gets how much; people know how long something may wait. A message of a queue with a
target is *due* when its target has passed since it was published. Its queue shares by quanta, like
any other, until its head is *urgent*; then it goes before whatever is not.

Who is urgent
-------------
A head is urgent `Lead.seconds` before it is due: from half of the target up to all of it. That is
learned by stochastic approximation (Robbins & Monro, 1951). A message that starts late, by less
than a tenth of its target in time, adds a twentieth of the target; one that starts in time takes
back so much that the two are even when half as many are late as may be. A queue begins with all of
its target, so that what comes once an hour is in time, too. Nothing oscillates, as it is the
message's own age that makes it urgent, and the lead only moves when that happens too late.

Which of the urgent is first
----------------------------
What is due first: whatever order keeps all deadlines, that one does (earliest deadline first; Liu &
Layland, 1973). Where there is more work than slots, it would keep none of them. So a queue whose
head is *overdue* goes before all that are less important, and after all that are more: targets are
missed from the least important on. Or, in proportion, all that are urgent share by quanta.

Nobody starves
--------------
Of what urgent queues are served a part is set apart for each queue without a target that has a
message: its floor. All floors together are at most a half.
"""

import math
import re
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from celery_fair.core.classes import ClassScheduler
from celery_fair.core.dwrr import Flow

_NEARLY = 0.9
_GAIN = 0.05
_LEAST = 0.5

FLOOR = 0.01
"""The part of a worker that a queue without a target has at the least, if nobody says otherwise."""

_FLOORS = 0.5
"""What all floors together are at the most."""

_REMEMBERED = 1000
"""Waits of a queue that a report goes by, at the most."""

PERIOD = 60.0
"""Seconds that a report looks back."""

_TEXT = re.compile(
    r"\s*(?P<percent>\d+(?:\.\d+)?)\s*%\s*<\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|s|min|h)\s*"
)
_UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}


class Target(NamedTuple):
    """So large a part of the messages starts within so many seconds of being published."""

    part: float
    seconds: float

    def __str__(self) -> str:
        return f"{100 * self.part:g}% < {in_words(self.seconds)}"


def in_words(seconds: float) -> str:
    """Return a time in the unit that suits it, as a target is written."""
    unit = "ms" if seconds < 1 else "s" if seconds < 60 else "min" if seconds < 3600 else "h"
    return f"{seconds / _UNITS[unit]:.3g}{unit}"


def parse_target(text: object) -> Target:
    """Return what a text such as "95% < 0.5s" says; the units are ms, s, min and h.

    Raises:
        ValueError: it is no such text, or what it says cannot be meant.
    """
    match = _TEXT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(
            f"a target is written like '95% < 0.5s', with ms, s, min or h, not {text!r}"
        )
    percent, seconds = float(match["percent"]), float(match["number"]) * _UNITS[match["unit"]]
    if not 50 <= percent < 100:
        raise ValueError(
            f"a target is of at least 50% of the messages and of less than 100%, not {percent:g}%:"
            " that every single one is in time nobody can promise, '99.9%' is as near as it gets"
        )
    if not 0.001 <= seconds <= 30 * 86400:
        raise ValueError(
            f"a target is a wait from 1ms to 720h, not {match['number']}{match['unit']}"
        )
    return Target(percent / 100, seconds)


class Lead:
    """How long before it is due a queue's head becomes urgent; see the module's text."""

    __slots__ = ("_allowed", "_late", "_part", "_seconds")

    def __init__(self, target: Target) -> None:
        self._seconds = target.seconds
        self._late = _NEARLY * target.seconds
        self._allowed = (1 - target.part) / 2
        self._part = 1.0

    @property
    def seconds(self) -> float:
        return self._part * self._seconds

    def started(self, wait: float) -> None:
        """Learn from a message that has waited for so many seconds when it started."""
        change = _GAIN * ((wait > self._late) - self._allowed)
        self._part = min(max(self._part + change, _LEAST), 1.0)


class Kept(NamedTuple):
    """How a queue's target has been kept of late.

    Attributes:
        flow: the queue.
        target: what is asked for.
        started: messages that the rest goes by: of the last minute, and at the most a thousand.
        wait: seconds within which the target's part of them started; None if there was none.
        in_time: the part of them that was in time; None if there was none.
        lead: seconds before it is due that a message is urgent.
        load: messages a second that have to start for the target to be kept.
    """

    flow: Flow
    target: Target
    started: int
    wait: float | None
    in_time: float | None
    lead: float
    load: float

    @property
    def queue(self) -> str:
        return self.flow.key

    @property
    def missed(self) -> bool:
        """Whether fewer were in time than the target asks for."""
        return self.in_time is not None and self.in_time < self.target.part


class _Queue:
    """One with a target, while it is consumed."""

    __slots__ = (
        *("at", "due", "flow", "is_here", "lead", "level", "overdue", "since", "target", "urgent"),
    )

    def __init__(self, flow: Flow, target: Target, lead: Lead, level: int) -> None:
        self.flow, self.target, self.lead = flow, target, lead
        self.level = level  # its own class, for when it is urgent; above 0
        self.since: float | None = None  # when its head was published
        self.is_here = False  # or there may be one, for the asking
        self.due = self.at = math.inf  # `at` is when something changes next, if it is not served
        self.urgent = self.overdue = False


class Urgency:
    """Lets a queue's head go before others in time; see the module's text.

    Arguments:
        scheduler: moves the flows. All of them begin in class 0.
        targets: by queue, the most important one first.
        in_proportion: whether urgent queues share by quanta.
        floor: the part of the worker that a queue without a target has at the least.
    """

    def __init__(
        self,
        scheduler: ClassScheduler,
        targets: Mapping[str, Target],
        in_proportion: bool = False,
        floor: float = FLOOR,
    ) -> None:
        self._scheduler = scheduler
        self._targets = dict(targets)
        self._leads = {queue: Lead(target) for queue, target in targets.items()}
        self._waits: dict[str, deque[tuple[float, float]]] = {
            queue: deque(maxlen=_REMEMBERED) for queue in targets
        }
        count = len(self._targets)
        self._levels = {
            queue: 1 if in_proportion else count - place for place, queue in enumerate(targets)
        }
        self._in_proportion = in_proportion
        self._floor = floor
        self._of: dict[Flow, _Queue] = {}
        self._urgent: list[_Queue] = []  # the most important first
        self._plain: set[Flow] = set()  # that have a message, and no target
        self._credit = 0.0  # of those, in units of cost
        self._next = math.inf

    # What changes -----------------------------------------------------------------

    def add(self, flow: Flow, level: int) -> None:
        """A flow was added to the scheduler."""
        target = self._targets.get(flow.key)
        if target is not None:
            level = self._levels[flow.key]
            self._of[flow] = _Queue(flow, target, self._leads[flow.key], level)

    def remove(self, flow: Flow) -> None:
        """It was removed."""
        self._plain.discard(flow)
        queue = self._of.pop(flow, None)
        if queue is not None and queue.urgent:
            self._urgent.remove(queue)

    def heads(self, flow: Flow, since: float, now: float, is_here: bool = True) -> None:
        """The flow's head is another message, which was published at the time `since`.

        Arguments:
            is_here: whether it is, or may be there for the asking, and then no older than that.
        """
        queue = self._of.get(flow)
        if queue is not None:
            queue.since, queue.is_here = since, is_here
            self._place(queue, now)
        elif self._scheduler.of(flow).is_backlogged(flow):
            self._plain.add(flow)

    def runs_empty(self, flow: Flow, owed: bool = False) -> None:
        """The flow has no head; one that is owed more keeps its place, and is waited for there."""
        queue = self._of.get(flow)
        if queue is None:
            self._plain.discard(flow)
            return
        queue.since, queue.at = None, math.inf
        if not owed:
            self._calm(queue)

    def rise(self, now: float) -> None:
        """Let time pass: heads become urgent, and overdue."""
        if now < self._next:
            return
        for queue in self._of.values():
            if queue.at <= now:
                self._place(queue, now)
        self._next = min((queue.at for queue in self._of.values()), default=math.inf)

    def served(self, flow: Flow, cost: float) -> None:
        """The flow's head has started, and costs so much."""
        queue = self._of.get(flow)
        if queue is None:
            self._credit = max(self._credit - cost, -cost)
        elif queue.urgent:
            part = min(self._floor * len(self._plain), _FLOORS)
            self._credit = min(self._credit + cost * part / (1 - part), cost)

    def started(self, flow: Flow, wait: float, now: float) -> None:
        """A message that the target is for has started so many seconds after its publication."""
        queue = self._of.get(flow)
        if queue is not None:
            queue.lead.started(wait)
            self._waits[flow.key].append((now, wait))

    def choose(self, now: float, patience: float) -> Flow | None:
        """Return the flow to be served next, or None; as `ClassScheduler.choose`."""
        if self._credit > 0 and self._urgent and self._plain:
            flow = self._scheduler.choose_lowest(now, patience)
            if flow is not None:
                return flow
        return self._scheduler.choose(now, patience)

    # What is asked ----------------------------------------------------------------

    def kept(self, now: float) -> list[Kept]:
        """Return how the targets of the queues that are here have been kept in the last minute.

        A head that is overdue counts as one that has started just now.
        """
        return [self._kept(queue, now) for queue in list(self._of.values())]

    def urgent(self, flow: Flow) -> bool:
        """Whether a flow's head goes before those that are not urgent."""
        queue = self._of.get(flow)
        return queue is not None and queue.urgent

    def _kept(self, queue: _Queue, now: float) -> Kept:
        key, target = queue.flow.key, queue.target
        # Another thread may ask, and what is added meanwhile is not there yet.
        known = [each for each in list(self._waits[key]) if each[0] >= now - PERIOD]
        waits = sorted(wait for _, wait in known)
        since = queue.since if queue.is_here else None
        late = 0.0 if since is None else max(0.0, now - since - target.seconds)
        if late:
            waits.append(target.seconds + late)
        count = len(waits)
        wait = waits[math.ceil(count * target.part) - 1] if waits else None
        in_time = sum(each <= target.seconds for each in waits) / count if waits else None
        load = arrivals(known, target.seconds) * (1 + late / PERIOD)
        return Kept(queue.flow, target, count, wait, in_time, queue.lead.seconds, load)

    # ------------------------------------------------------------------------------

    def _place(self, queue: _Queue, now: float) -> None:
        assert queue.since is not None
        due = queue.due = queue.since + queue.target.seconds
        urgent_at = due - queue.lead.seconds
        queue.overdue = now >= due
        if now >= urgent_at:
            queue.at = math.inf if queue.overdue else due
            self._rush(queue)
        else:
            queue.at = urgent_at
            self._calm(queue)
        self._next = min(self._next, queue.at)

    def _rush(self, queue: _Queue) -> None:
        if not queue.urgent:
            queue.urgent = True
            self._scheduler.move(queue.flow, queue.level)
            self._urgent.append(queue)
            self._urgent.sort(key=lambda each: -each.level)
        if len(self._urgent) > 1 and not self._in_proportion:
            self._scheduler.reorder([each.level for each in _in_order(self._urgent)])

    def _calm(self, queue: _Queue) -> None:
        if queue.urgent:
            queue.urgent = queue.overdue = False
            self._scheduler.move(queue.flow, 0)
            self._urgent.remove(queue)


def _in_order(urgent: Sequence[_Queue]) -> list[_Queue]:
    """Return urgent queues, the most important first, in the order in which they are served."""
    order: list[_Queue] = []
    group: list[_Queue] = []
    for queue in urgent:
        if queue.overdue:
            order += sorted(group, key=lambda each: each.due)
            order.append(queue)
            group = []
        else:
            group.append(queue)
    return order + sorted(group, key=lambda each: each.due)


def arrivals(started: Sequence[tuple[float, float]], seconds: float) -> float:
    """Return how many messages a second were published, by when and after what waits they started.

    That tells it without asking the broker. What was published at once is to start within the
    target: so many `seconds` count at the least, or a minute if the target is longer.
    """
    published = [at - wait for at, wait in started]
    span = max(published, default=0.0) - min(published, default=0.0)
    return max(len(started) - 1, 0) / max(span, min(seconds, PERIOD))


def slots_needed(
    work: float, targets: Sequence[Target], runtime: float, floor: float = FLOOR
) -> int:
    """Return how many slots would do for targets to be kept.

    Arguments:
        work: slots that the queues with a target keep busy on the average: messages a second times
            seconds of each (Little, 1961).
        targets: what is to be kept.
        runtime: what a task of any queue takes, in seconds, on the average: a message may find all
            slots taken by such.
        floor: the part that is left to others.

    Two rules, of which the larger counts. Square-root staffing (Halfin & Whitt, 1981): the work and
    its root, so that what varies finds a slot. And one of so many slots becomes free in time: of
    `n` tasks that have been running for a while none ends within `T` with the probability
    ``(1 - T / runtime) ** n``.
    """
    busy = work / (1 - floor)
    needed = math.ceil(busy + math.sqrt(busy))
    for target in targets:
        if target.seconds < runtime:
            needed = max(
                needed,
                math.ceil(math.log(1 - target.part) / math.log1p(-target.seconds / runtime)),
            )
    return max(needed, 1)
