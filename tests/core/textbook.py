"""Deficit round robin as the textbook walks it: every backlogged flow, in every round.

It keeps lists, searches them, and takes as long as it takes, so that it is plain to see that it is
right. It offers what `DeficitRoundRobin` offers, and must serve the same flows in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(eq=False)
class TextbookFlow:
    key: str
    quantum: float
    deficit: float = 0.0
    head: float | None = None
    last_cost: float = 1.0
    visited: bool = False
    took_part_in: int = 0


class Textbook:
    def __init__(self) -> None:
        self.round = 1
        self.flows: dict[str, TextbookFlow] = {}
        self.active: list[TextbookFlow] = []
        self.to_visit: list[TextbookFlow] = []
        self.waiting: dict[TextbookFlow, float] = {}
        self.visits = 0

    @property
    def deadline(self) -> float | None:
        return min(self.waiting.values(), default=None)

    def add(self, key: str, quantum: float) -> TextbookFlow:
        flow = self.flows[key] = TextbookFlow(key, quantum)
        return flow

    def remove(self, flow: TextbookFlow) -> None:
        del self.flows[flow.key]
        self._idle(flow)

    def reweight(self, flow: TextbookFlow, quantum: float) -> None:
        flow.quantum = quantum

    def offer(self, flow: TextbookFlow, cost: float) -> None:
        flow.head = cost
        if flow not in self.active:
            self.active.append(flow)
            if flow.took_part_in < self.round:
                self._schedule(flow)
        elif self.waiting.pop(flow, None) is not None:
            self.to_visit.insert(0, flow)

    def choose(self, now: float, patience: float) -> TextbookFlow | None:
        while True:
            while self.to_visit:
                flow = self.to_visit[0]
                if self._may_be_served(flow, now + patience):
                    return flow
                self.to_visit.pop(0)
            if self.waiting or not self.active:
                return None
            self.round += 1
            for flow in self.active:
                self._schedule(flow)

    def serve(
        self, flow: TextbookFlow, cost: float, head: float | None, owed: bool = False
    ) -> None:
        flow.deficit -= cost
        flow.last_cost = flow.head or flow.last_cost
        flow.head = head
        if head is None and not owed:
            self._idle(flow)

    def settle(self, flow: TextbookFlow, difference: float) -> None:
        flow.deficit -= difference
        if flow not in self.active:
            flow.deficit = min(flow.deficit, 0.0)

    def expire(self, now: float) -> list[TextbookFlow]:
        expired = [flow for flow, deadline in self.waiting.items() if deadline <= now]
        for flow in expired:
            self._idle(flow)
        return expired

    def drop(self, flow: TextbookFlow) -> None:
        flow.head = None
        self._idle(flow)

    def is_backlogged(self, flow: TextbookFlow) -> bool:
        return flow in self.active

    def _schedule(self, flow: TextbookFlow) -> None:
        flow.visited = False
        flow.took_part_in = self.round
        self.to_visit.append(flow)

    def _may_be_served(self, flow: TextbookFlow, deadline: float) -> bool:
        if not flow.visited:
            flow.visited = True
            flow.deficit += flow.quantum
            self.visits += 1
        if flow.head is None and flow.deficit >= flow.last_cost:
            self.waiting[flow] = max(deadline, *self.waiting.values(), deadline)
        return flow.head is not None and flow.deficit >= flow.head

    def _idle(self, flow: TextbookFlow) -> None:
        if flow in self.to_visit:
            self.to_visit.remove(flow)
            if not flow.visited:
                flow.deficit += flow.quantum
        flow.deficit = min(flow.deficit, 0.0)
        if flow in self.active:
            self.active.remove(flow)
        self.waiting.pop(flow, None)
