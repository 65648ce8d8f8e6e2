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
the flow is filed under that round. Rounds in which nobody can be served are thereby skipped, and a
decision takes amortised constant time however many flows there are and however small a quantum is
beside a cost (a heap holds the numbers of the rounds ahead, not the flows).

A flow whose messages are owed is not idle. If its turn comes and nothing is here, the others are
served first, and the *round stays open* until the message comes (`offer`) or the caller gives up
(`expire`): credit that the broker was too slow to fill is neither lost nor handed to others.

A flow that becomes backlogged joins the current round, unless it has had its quantum of this round
already: then it joins the next, or a flow that keeps running empty could be served for ever within
one round.
"""

import math
from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush

__all__ = ["DeficitRoundRobin", "Flow", "check_cost", "check_quantum"]

_FURTHEST = 2.0**60
"""Rounds ahead at the most: keeps the round number an exact integer for any float quotient."""


def check_quantum(quantum: float) -> float:
    """Return `quantum` as a float; raise `ValueError` unless it is finite and above zero."""
    return _positive("quantum", quantum)


def check_cost(cost: float) -> float:
    """Return `cost` as a float; raise `ValueError` unless it is finite and above zero."""
    return _positive("cost", cost)


def _positive(what: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{what} must be a number above zero, not {value!r}")
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{what} must be a finite number above zero, not {value!r}")
    return float(value)


class Flow:
    """One queue as the scheduler sees it. Made by `DeficitRoundRobin.add`; read-only outside.

    Attributes:
        key: the name it was added under.
        quantum: cost served per round.
        deficit: the deficit counter, in units of cost.
        head: the cost of the message to serve next, or None when none is here.
    """

    __slots__ = ("deficit", "due", "granted", "head", "key", "last_cost", "quantum")

    def __init__(self, key: str, quantum: float) -> None:
        self.key = key
        self.quantum = quantum
        self.deficit = 0.0
        self.head: float | None = None
        self.last_cost = 1.0
        self.granted = 0  # the last round whose quantum is in the deficit counter
        self.due: int | None = None  # the round it is filed under; None while idle

    def __repr__(self) -> str:
        return f"<Flow {self.key} quantum={self.quantum:g} deficit={self.deficit:g} due={self.due}>"


class DeficitRoundRobin:
    """Says which flow to serve next. See the module's text for the rule.

    Use: `offer` a flow's next message when it arrives, `choose` a flow, then say what became of
    the message: `serve`. Adding, removing, reweighting are allowed at any moment.
    """

    def __init__(self) -> None:
        self._flows: dict[str, Flow] = {}
        self._round = 1
        self._current: deque[Flow] = deque()
        self._ahead: dict[int, deque[Flow]] = {}
        self._order: list[int] = []
        self._waiting: dict[Flow, float] = {}  # in the order of their deadlines

    def __len__(self) -> int:
        return len(self._flows)

    def __iter__(self) -> Iterator[Flow]:
        return iter(self._flows.values())

    def __getitem__(self, key: str) -> Flow:
        return self._flows[key]

    @property
    def deadline(self) -> float | None:
        """When to call `expire` at the latest, on the clock given to `choose`; None if never."""
        return next(iter(self._waiting.values()), None)

    def add(self, key: str, quantum: float) -> Flow:
        """Add an idle flow. Raise `ValueError` for a bad quantum or a key that is there."""
        if key in self._flows:
            raise ValueError(f"flow {key!r} is there already")
        flow = self._flows[key] = Flow(key, check_quantum(quantum))
        return flow

    def remove(self, flow: Flow) -> None:
        """Forget a flow, whatever its state."""
        del self._flows[flow.key]
        self._idle(flow)

    def reweight(self, flow: Flow, quantum: float) -> None:
        """Give a flow another quantum, from the next grant on; its credit stays."""
        quantum = check_quantum(quantum)
        if flow.due is not None and flow.due > self._round:
            self._grant(flow)
            flow.quantum = quantum
            self._defer(flow)
        flow.quantum = quantum

    def offer(self, flow: Flow, cost: float) -> None:
        """Say that the flow's next message is here and costs `cost` (above zero, finite)."""
        flow.head = cost
        if flow.due is None:
            self._activate(flow)
        elif self._waiting and self._waiting.pop(flow, None) is not None:
            self._current.appendleft(flow)

    def choose(self, now: float, patience: float) -> Flow | None:
        """Return the flow whose message is to be served next, or None.

        None means that nothing is here, or that the round is held open for an owed message: then
        `deadline` says until when, which is at most `patience` seconds from `now`. Choosing
        again without `serve` returns the same flow.
        """
        while True:
            current = self._current
            while current:
                flow = current[0]
                if flow.due == self._round and flow not in self._waiting:
                    if flow.granted != self._round:
                        self._grant(flow)
                    if flow.head is None:
                        if flow.deficit >= flow.last_cost:
                            self._wait(flow, now + patience)
                        else:
                            self._defer(flow)
                    elif flow.deficit >= flow.head:
                        return flow
                    else:
                        self._defer(flow)
                current.popleft()
            if self._waiting or not self._order:
                return None
            self._round = heappop(self._order)
            self._current = self._ahead.pop(self._round)

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
        if head is None and not owed:
            self._idle(flow)

    def settle(self, flow: Flow, difference: float) -> None:
        """Charge (or, below zero, give back) what a message cost beyond what was charged."""
        flow.deficit -= difference

    def expire(self, now: float) -> list[Flow]:
        """End the waits that are over; return the flows, which are idle now."""
        expired = []
        for flow, deadline in self._waiting.items():
            if deadline > now:
                break
            expired.append(flow)
        for flow in expired:
            self._idle(flow)
        return expired

    def drop(self, flow: Flow) -> None:
        """The flow has nothing any more and is owed nothing: it is idle, without credit."""
        flow.head = None
        self._idle(flow)

    def is_backlogged(self, flow: Flow) -> bool:
        """Whether the flow takes part in the rounds: has a message, or is owed one."""
        return flow.due is not None

    def _idle(self, flow: Flow) -> None:
        flow.deficit = min(flow.deficit, 0.0)  # credit goes, a debt stays
        flow.due = None
        self._waiting.pop(flow, None)

    def _activate(self, flow: Flow) -> None:
        if flow.granted < self._round:
            flow.granted = self._round - 1
            flow.due = self._round
            self._current.append(flow)
        else:
            self._file(flow, self._round + 1)

    def _grant(self, flow: Flow) -> None:
        flow.deficit += flow.quantum * (self._round - flow.granted)
        flow.granted = self._round

    def _defer(self, flow: Flow) -> None:
        cost = flow.last_cost if flow.head is None else flow.head
        rounds = min(math.ceil(min((cost - flow.deficit) / flow.quantum, _FURTHEST)), _FURTHEST)
        self._file(flow, self._round + max(1, int(rounds)))

    def _file(self, flow: Flow, due: int) -> None:
        flow.due = due
        filed = self._ahead.get(due)
        if filed is None:
            filed = self._ahead[due] = deque()
            heappush(self._order, due)
        filed.append(flow)

    def _wait(self, flow: Flow, deadline: float) -> None:
        last = next(reversed(self._waiting.values()), deadline)
        self._waiting[flow] = max(deadline, last)
