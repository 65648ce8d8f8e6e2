"""Deficit weighted round robin (DWRR), with rounds that are computed instead of walked.

Terms
-----
*flow*: what is scheduled, here one queue. *cost*: what serving one message takes, in any unit
that is the same for all flows. *quantum*: how much cost a flow may be served per round.
*deficit counter*: the credit that a flow has not used yet. *backlogged*: has something to serve.
*owed*: nothing is here, but more is known to be on its way.

The rule (Shreedhar & Varghese, "Efficient Fair Queuing using Deficit Round Robin", 1995)
----------------------------------------------------------------------------------------
In each round every backlogged flow's deficit counter grows by its quantum; the flow is then served
while it has a message whose cost its deficit counter covers; serving subtracts the cost. A flow
that runs idle loses its credit. Over any interval in which flows i and j are both backlogged

    |S_i / f_i - S_j / f_j|  <=  2 * Max + q

with S the cost served, q the least quantum, f = quantum / q, and Max the largest cost.

What is different here
----------------------
A flow is not visited in rounds in which it cannot be served. When its credit falls short, the
round in which it will suffice is computed, ``ceil((cost - deficit) / quantum)`` rounds ahead, and
the flow is filed under that round. Rounds in which nobody can be served are thereby skipped. A
decision takes amortised constant time however many flows there are and however small a quantum is
beside a cost: a heap holds the numbers of the rounds ahead, not the flows, and a flow is sorted
into its round once per visit.

The flows are served in the very order in which the textbook, walking all rounds, would serve them.
Within a round that is the order in which they became backlogged. The bound rests on it: were two
flows to swap places between rounds, one could be visited twice more often than the other within an
interval, not once, which costs another q.

A flow whose messages are owed is not idle. If its turn comes and nothing is here, the others are
served first, and the *round stays open* until the message comes (`offer`) or the caller gives up
(`expire`): credit that the broker was too slow to fill is neither lost nor handed to others. Such a
flow does swap places, so its bound is 2 * Max + 2 * q.

A flow may be held back from outside, by a rate or a cap that lets a message through now and then.
It still takes part in the rounds: when it is let go, it is served the rest of its turn in the
present round at once, in the middle of another's turn if need be. Otherwise it would only get what
happens to be let through at one moment, once a round, however long a round is.

A flow takes part in a round once. If it has run idle and becomes backlogged again, it joins the
next round; otherwise a flow that keeps running empty could be served for ever within one round.

No flow starves
---------------
A backlogged flow i whose head costs c is served in its R-th turn from now at the latest, with
R = ceil(c / Q_i). Until then each other flow j has at most R turns and what is left of a turn under
way, so that it is served less than (R + 1) * Q_j + Max.
"""

import math
from collections import deque
from contextlib import suppress
from heapq import heappop, heappush
from itertools import takewhile
from operator import attrgetter

from celery_fair.core.pricing import check_quantum

_FURTHEST = 1 << 60
"""Rounds ahead at the most; what is still short then is forgiven, or floats might not get there."""


class Flow:
    """One queue as its scheduler sees it, idle at first; read-only outside.

    Attributes:
        key: its name.
        quantum: cost served per round.
        deficit: the deficit counter, in units of cost, as of the round `granted`.
        head: the cost of the message to serve next, or None when none is here.
        last_cost: the cost of the message served last.

    Raises:
        ValueError: for a bad quantum.
    """

    __slots__ = ("deficit", "due", "granted", "head", "key", "last_cost", "place", "quantum")

    def __init__(self, key: str, quantum: float) -> None:
        self.key = key
        self.quantum = check_quantum(quantum)
        self.deficit = 0.0
        self.head: float | None = None
        self.last_cost = 1.0
        self.granted = 0  # the last round whose quantum is in the deficit counter
        self.due = 0  # the round it is filed under; 0 while idle, below when held or removed
        self.place = 0  # in every round; places are given out in the order of becoming backlogged

    @property
    def is_backlogged(self) -> bool:
        """Whether it takes part in the rounds: has a message, or is owed one."""
        return self.due > 0

    @property
    def is_held(self) -> bool:
        """Whether it is left out by `DeficitRoundRobin.hold`."""
        return self.due == _HELD

    def rescale(self, ratio: float) -> None:
        """What costs are counted in has changed: what cost one costs `ratio` now."""
        self.last_cost *= ratio


_REMOVED = -1
_HELD = -2
_place = attrgetter("place")


class _Rounds:
    """Which flows have their turn in which round."""

    def __init__(self) -> None:
        self._round = 1
        self._reached = 0  # the place of the last flow that the current round has come to
        self._current: deque[Flow] = deque()  # may hold flows that are due in it no more
        self._ahead: dict[int, dict[Flow, None]] = {}
        self._order: list[int] = []  # a heap; may hold rounds that are empty by now
        self._resumed: set[Flow] = set()  # those that were let go on in the present round

    def rounds_ahead(self, flow: Flow) -> int:
        """How many rounds from the present one a backlogged flow's turn comes; 0: in this one."""
        return max(0, flow.due - self._round)

    def before(self, flow: Flow) -> int:
        """How many others have their turn in the present round before a flow's, as it stands."""
        others = takewhile(lambda each: each is not flow, self._current)
        return sum(each.due == self._round for each in others)

    def _resume(self, flow: Flow) -> None:
        flow.due = self._round
        current, resumed = self._current, self._resumed
        with suppress(ValueError):  # where it was before
            current.remove(flow)
        at = 0
        while at < len(current) and current[at] in resumed and current[at].place < flow.place:
            at += 1
        current.insert(at, flow)
        resumed.add(flow)

    def _file(self, flow: Flow, due: int) -> None:
        flow.due = due
        filed = self._ahead.get(due)
        if filed is None:
            filed = self._ahead[due] = {}
            heappush(self._order, due)
        filed[flow] = None

    def _unfile(self, flow: Flow) -> None:
        filed = self._ahead[flow.due]
        del filed[flow]
        if not filed:
            del self._ahead[flow.due]
            if len(self._order) > 2 * len(self._ahead) + 8:
                self._order = sorted(self._ahead)

    def _next_round(self) -> bool:
        while self._order:
            due = heappop(self._order)
            filed = self._ahead.pop(due, None)
            if filed:
                self._round = due
                self._resumed.clear()
                self._reached = 0
                self._current.extend(sorted(filed, key=_place) if len(filed) > 1 else filed)
                return True
        return False

    def _catch_up(self, flow: Flow) -> None:
        """Grant what is due for the rounds in which the flow's place has been passed."""
        passed = self._round if flow.place <= self._reached else self._round - 1
        if passed > flow.granted:
            flow.deficit += flow.quantum * (passed - flow.granted)
            flow.granted = passed


class DeficitRoundRobin(_Rounds):
    """Says which flow to serve next. See the module's text for the rule.

    Use: `offer` a flow's next message when it arrives, `choose` a flow, then say what became of
    the message: `serve`. Removing, reweighting are allowed at any moment. Costs are taken as they
    come, for speed; what comes from outside goes through `check_cost` first.
    """

    def __init__(self) -> None:
        super().__init__()
        self._places = 0
        self._waiting: dict[Flow, float] = {}  # in the order of their deadlines

    @property
    def deadline(self) -> float | None:
        """When to call `expire`, on the clock given to `choose`; None if nobody is waited for."""
        return next(iter(self._waiting.values()), None)

    def admit(self, flow: Flow) -> None:
        """Take over a flow that another scheduler has removed; its credit is lost, its head stays.

        It takes part from the next round on: it may have been here in the present one already.
        """
        flow.due, flow.granted = 0, self._round
        if flow.head is not None:
            self._activate(flow)

    def remove(self, flow: Flow) -> None:
        """Forget a flow, whatever its state. What is offered for it afterwards is ignored."""
        self._idle(flow)
        flow.due = _REMOVED
        with suppress(ValueError):  # another scheduler may give it the number of a round of ours
            self._current.remove(flow)

    def reweight(self, flow: Flow, quantum: float) -> None:
        """Give a flow another quantum, from its next turn on; its credit stays."""
        quantum = check_quantum(quantum)
        if flow.due > 0:
            self._catch_up(flow)
        flow.quantum = quantum
        if flow.due > self._round:
            self._refile(flow)

    def offer(self, flow: Flow, cost: float) -> None:
        """Say that the flow's next message is here and costs `cost` (above zero, finite)."""
        filed_for = flow.last_cost if flow.head is None else flow.head
        flow.head = cost
        if not flow.due:
            self._activate(flow)
        elif self._waiting and self._waiting.pop(flow, None) is not None:
            self._current.appendleft(flow)
        elif cost < filed_for and flow.due > self._round:
            self._refile(flow)

    def choose(self, now: float, patience: float) -> Flow | None:
        """Return the flow whose message is to be served next, or None.

        None means that nothing is here, or that the round is held open for an owed message: then
        `deadline` says until when. A wait that begins now ends in `patience` seconds, or with the
        waits begun before it if they end later. Choosing again without `serve` returns the same
        flow.
        """
        current = self._current
        while True:
            while current:
                flow = current[0]
                if flow.due == self._round:
                    if flow.granted != self._round:
                        flow.deficit += flow.quantum * (self._round - flow.granted)
                        flow.granted = self._round
                        self._reached = flow.place
                    cost = flow.head
                    if cost is None:
                        if flow.deficit < flow.last_cost:
                            self._defer(flow, flow.last_cost)
                        else:
                            self._wait(flow, now + patience)
                    elif flow.deficit >= cost:
                        return flow
                    else:
                        self._defer(flow, cost)
                current.popleft()
            if self._waiting:
                self._reached = self._places
                return None
            if not self._next_round():
                return None

    def serve(self, flow: Flow, cost: float, head: float | None, owed: bool = False) -> None:
        """The flow's head is gone, `cost` (0 if it was not worked on) is charged.

        Arguments:
            head: the cost of the flow's next message, or None when none is here.
            owed: with no head: whether more is known to be on its way. If not, the flow is idle
                and its credit is dropped.
        """
        flow.deficit -= cost
        if flow.head is not None:
            flow.last_cost = flow.head
        flow.head = head
        if head is None:
            if not owed:
                self._idle(flow)
        elif not flow.due:  # it was dropped while it was being served
            self._activate(flow)

    def settle(self, flow: Flow, difference: float) -> None:
        """Charge (or, below zero, give back) what a message cost beyond what was charged."""
        flow.deficit -= difference
        if flow.due in {0, _REMOVED}:
            flow.deficit = min(flow.deficit, 0.0)
        elif difference < 0 and flow.due > self._round:
            self._refile(flow)

    def overdue(self, now: float) -> list[Flow]:
        """Return the flows that have been waited for long enough."""
        return [flow for flow, _ in takewhile(lambda wait: wait[1] <= now, self._waiting.items())]

    def extend(self, flow: Flow, deadline: float) -> None:
        """Wait on for a flow that is waited for: what it is owed is certain to come."""
        del self._waiting[flow]
        self._wait(flow, deadline)

    def expire(self, now: float) -> list[Flow]:
        """End the waits that are over; return the flows, which are idle now."""
        expired = self.overdue(now)
        for flow in expired:
            self._idle(flow)
        return expired

    def hold(self, flow: Flow) -> None:
        """Leave the flow out, though it may have messages, until `release`.

        Its credit is lost, except for what it may still be served in the present round.
        """
        if flow.due < 0:
            return
        credit = 0.0
        if flow.due == self._round:
            credit = flow.deficit + flow.quantum * (self._round - flow.granted)
        self._idle(flow)
        flow.due = _HELD
        flow.deficit += max(credit, 0.0)

    def release(self, flow: Flow) -> None:
        """Let a held flow take part again, if it has a message.

        What it has not been served yet of its turn in the present round, it may be served at once,
        before those whose turn has come meanwhile.
        """
        if flow.due != _HELD:
            return
        flow.due = 0
        if flow.granted < self._round and flow.place:
            flow.deficit = min(flow.deficit, 0.0) + flow.quantum
            flow.granted = self._round
        if flow.head is None:
            self._idle(flow)
        elif flow.deficit > 0:
            self._resume(flow)
        elif flow.place:
            self._file(flow, self._round + 1)
        else:
            self._activate(flow)

    def _activate(self, flow: Flow) -> None:
        self._places += 1
        flow.place = self._places
        if flow.granted < self._round:
            flow.granted = self._round - 1
            flow.due = self._round
            self._current.append(flow)
        else:
            self._file(flow, self._round + 1)

    def _idle(self, flow: Flow) -> None:
        if flow.due <= 0:
            flow.deficit = min(flow.deficit, 0.0)
            return
        if flow.due > self._round:
            self._unfile(flow)
        if flow.granted != self._round:
            flow.deficit += flow.quantum * (self._round - flow.granted)
            flow.granted = self._round
        if flow.deficit > 0:  # credit goes, a debt stays
            flow.deficit = 0.0
        flow.due = 0
        if self._waiting:
            self._waiting.pop(flow, None)

    def _defer(self, flow: Flow, cost: float) -> None:
        rounds = (cost - flow.deficit) / flow.quantum
        if rounds <= _FURTHEST:
            self._file(flow, flow.granted + (math.ceil(rounds) if rounds > 1 else 1))
        else:
            flow.deficit = cost - flow.quantum * _FURTHEST
            self._file(flow, flow.granted + _FURTHEST)

    def _refile(self, flow: Flow) -> None:
        """What it was filed for has changed: it may be served earlier, even in this round."""
        self._unfile(flow)
        self._catch_up(flow)
        self._defer(flow, flow.last_cost if flow.head is None else flow.head)
        if flow.due == self._round:
            self._unfile(flow)
            current = self._current
            at = len(current)
            while at and current[at - 1].place > flow.place:
                at -= 1
            current.insert(at, flow)

    def _wait(self, flow: Flow, deadline: float) -> None:
        last = next(reversed(self._waiting.values()), deadline)
        self._waiting[flow] = max(deadline, last)
