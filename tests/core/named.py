"""A scheduler that knows its flows by their keys, as tests do."""

from __future__ import annotations

from collections.abc import Iterator

from celery_fair.core.dwrr import DeficitRoundRobin, Flow


def drop(scheduler: DeficitRoundRobin, flow: Flow) -> None:
    """The flow has nothing any more and is owed nothing: it is idle, without credit."""
    flow.head = None
    scheduler._idle(flow)


class Named(DeficitRoundRobin):
    """As it is, and with those that were added and not removed."""

    def __init__(self) -> None:
        super().__init__()
        self._flows: dict[str, Flow] = {}

    def __len__(self) -> int:
        return len(self._flows)

    def __iter__(self) -> Iterator[Flow]:
        return iter(self._flows.values())

    def __getitem__(self, key: str) -> Flow:
        return self._flows[key]

    def add(self, key: str, quantum: float) -> Flow:
        flow = self._flows[key] = Flow(key, quantum)
        return flow

    def admit(self, flow: Flow) -> None:
        self._flows[flow.key] = flow
        super().admit(flow)

    def drop(self, flow: Flow) -> None:
        drop(self, flow)

    def remove(self, flow: Flow) -> None:
        del self._flows[flow.key]
        super().remove(flow)
