"""What each queue has of the worker while others are urgent for their targets: its floor.

Of what is served a part is set apart for each queue that something urgent goes before, with a
target of its own or without. All these parts together are at most a half. What such a queue gets by
its quanta, while nothing is urgent, counts for it.

Floors are of the worker's time, whatever costs are counted in, as one long task may take what a
thousand short ones do: a message counts for what its queue's tasks have taken on the average. Whose
turn it is goes by what each has had (self-clocked fair queueing; Golestani, 1994).
"""

from collections import defaultdict
from heapq import heappop, heappush, heapreplace

from celery_fair.core.dwrr import Flow
from celery_fair.core.pricing import Mean

_MOST = 0.5
"""What all floors together are at the most."""

_UNKNOWN = 1.0
"""Seconds for which a message counts as long as none of its queue has ended."""


class Floors:
    """Says whose floor it is.

    Arguments:
        part: of the worker, that each queue has at the least.

    Attributes:
        run_times: by queue, seconds.
    """

    def __init__(self, part: float) -> None:
        self.run_times: defaultdict[str, Mean] = defaultdict(Mean)
        self._part = part
        self._waiting: dict[str, Flow] = {}
        self._credit = 0.0  # of all together, in seconds
        self._had: dict[str, float] = {}  # of each, in seconds
        self._turns: list[tuple[float, str]] = []  # a heap of these, each once; may be outdated
        self._clock = 0.0  # what the last one had had

    def __contains__(self, flow: Flow) -> bool:
        return flow.key in self._waiting

    def wait(self, flow: Flow) -> None:
        """The flow has a message, and may have a floor."""
        self._waiting[flow.key] = flow
        if flow.key not in self._had:
            self._had[flow.key] = self._clock
            heappush(self._turns, (self._clock, flow.key))

    def forget(self, flow: Flow) -> None:
        """It has none."""
        self._waiting.pop(flow.key, None)

    def apart(self, but: int) -> float:
        """Return the part that is set apart for all that wait but so many."""
        return min(self._part * (len(self._waiting) - but), _MOST)

    def next(self, first: Flow) -> Flow | None:
        """Return whose floor it is: of those that `first` goes before, who has had the least."""
        aside: tuple[float, str] | None = None
        found = None
        while self._credit > 0 and self._turns and found is None:
            had, key = self._turns[0]
            if key not in self._waiting:
                heappop(self._turns)
                del self._had[key]
            elif had < self._had[key]:
                heapreplace(self._turns, (self._had[key], key))
            elif key == first.key:
                aside = heappop(self._turns)
            else:
                found = self._waiting[key]
        if aside is not None:
            heappush(self._turns, aside)
        return found

    def starts_urgent(self, flow: Flow) -> None:
        """A message has started before others, which adds to their floors."""
        seconds, part = self._seconds(flow), self.apart(1)
        self._credit = min(self._credit + seconds * part / (1 - part), seconds)

    def starts(self, flow: Flow, in_turn: bool) -> None:
        """A message of a flow that may have a floor has started.

        Arguments:
            in_turn: for its floor; else by its quanta.
        """
        seconds = self._seconds(flow)
        self._credit = max(self._credit - seconds, min(self._credit, -seconds))
        if in_turn and flow.key in self._had:
            self._clock = self._had[flow.key]
            self._had[flow.key] += seconds

    def _seconds(self, flow: Flow) -> float:
        known = self.run_times.get(flow.key)
        return _UNKNOWN if known is None else known.value
