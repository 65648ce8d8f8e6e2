"""Classes as the textbook has them: one walked round robin each, and a set of what is held.

It offers what `ClassScheduler` offers, and must serve the same flows in the same order.
"""

from __future__ import annotations

from tests.core.textbook import Textbook, TextbookFlow


class HoldingTextbook(Textbook):
    """A round robin whose flows can be left out, and come from another one."""

    def __init__(self) -> None:
        super().__init__()
        self.held: set[TextbookFlow] = set()

    def offer(self, flow: TextbookFlow, cost: float) -> None:
        if flow in self.held:
            flow.head = cost
        else:
            super().offer(flow, cost)

    def hold(self, flow: TextbookFlow) -> None:
        self._idle(flow)
        self.held.add(flow)

    def release(self, flow: TextbookFlow) -> None:
        if flow in self.held:
            self.held.remove(flow)
            if flow.head is not None:
                self.offer(flow, flow.head)

    def remove(self, flow: TextbookFlow) -> None:
        super().remove(flow)
        self.held.discard(flow)

    def admit(self, flow: TextbookFlow) -> None:
        self.flows[flow.key] = flow
        flow.took_part_in = self.round
        if flow.head is not None:
            self.offer(flow, flow.head)


class TextbookClasses:
    def __init__(self) -> None:
        self.classes = {level: HoldingTextbook() for level in range(4)}
        self.levels: dict[str, int] = {}

    @property
    def flows(self) -> dict[str, TextbookFlow]:
        return {k: flow for book in self.classes.values() for k, flow in book.flows.items()}

    @property
    def deadline(self) -> float | None:
        deadlines = [book.deadline for book in self.classes.values()]
        return min((d for d in deadlines if d is not None), default=None)

    def of(self, flow: TextbookFlow) -> HoldingTextbook:
        return self.classes[self.levels[flow.key]]

    def add(self, key: str, quantum: float, level: int) -> TextbookFlow:
        self.levels[key] = level
        return self.classes[level].add(key, quantum)

    def move(self, flow: TextbookFlow, level: int) -> None:
        before, after = self.of(flow), self.classes[level]
        if before is not after:
            held = flow in before.held
            before.remove(flow)
            after.admit(flow)
            if held:
                after.hold(flow)
            self.levels[flow.key] = level

    def choose(self, now: float, patience: float) -> TextbookFlow | None:
        for level in sorted(self.classes, reverse=True):
            flow = self.classes[level].choose(now, patience)
            if flow is not None or self.classes[level].waiting:
                return flow
        return None

    def serve(self, flow: TextbookFlow, cost: float, head: float | None, owed: bool) -> None:
        self.of(flow).serve(flow, cost, head, owed)

    def expire(self, now: float) -> list[TextbookFlow]:
        levels = sorted(self.classes, reverse=True)
        return [flow for level in levels for flow in self.classes[level].expire(now)]
