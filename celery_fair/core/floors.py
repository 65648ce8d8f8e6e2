"""What each queue has of the worker while others are urgent for their targets: its floor.

Of what is served a part is set apart for each queue that something urgent goes before, with a
target of its own or without. All these parts together are at most a half. What such a queue gets by
its quanta, while nothing is urgent, counts for it.

Floors are of the worker's time, whatever costs are counted in, as one long task may take what a
thousand short ones do: a message counts for what its queue's tasks have taken on the average. Until
one has ended that is not known: of such a queue a single message has a turn, and is counted then.
Whose turn it is goes by what each has had (fair queueing by virtual time; Zhang, 1990).
"""

from collections import defaultdict
from heapq import heappop, heappush, heapreplace

from celery_fair.core.dwrr import Flow
from celery_fair.core.pricing import Mean

_MOST = 0.5
"""What all floors together are at the most."""


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
        self._due = 0.0  # seconds that each of these is to have had by now
        self._had: dict[str, float] = {}  # that it has had
        self._turns: list[tuple[float, str]] = []  # a heap of these, each once; may be outdated
        self._uncounted: set[str] = set()  # of these what has started is not counted yet

    def wait(self, flow: Flow) -> None:
        """The flow has a message, and may have a floor."""
        self._waiting[flow.key] = flow
        if flow.key not in self._had:
            self._had[flow.key] = self._due
            heappush(self._turns, (self._due, flow.key))

    def forget(self, flow: Flow) -> None:
        """It has none."""
        self._waiting.pop(flow.key, None)

    def apart(self, but: int) -> float:
        """Return the part that is set apart for all that wait but so many."""
        return min(self._part * (len(self._waiting) - but), _MOST)

    def next(self, first: Flow) -> Flow | None:
        """Return whose floor it is: of those that `first` goes before, who has had the least."""
        aside: list[tuple[float, str]] = []
        found = None
        while found is None and self._turns and self._turns[0][0] < self._due:
            had, key = self._turns[0]
            if had < self._had[key]:
                heapreplace(self._turns, (self._had[key], key))
            elif key not in self._waiting:
                heappop(self._turns)
                del self._had[key]
            elif key == first.key or (key in self._uncounted and key not in self.run_times):
                aside.append(heappop(self._turns))
            elif key in self._uncounted:
                self._uncounted.remove(key)
                self._had[key] += self._seconds(self._waiting[key])
            else:
                found = self._waiting[key]
        for each in aside:
            heappush(self._turns, each)
        return found

    def starts_urgent(self, flow: Flow) -> None:
        """A message has started before others, which adds to their floors."""
        part, others = self.apart(1), len(self._waiting) - 1
        if others > 0:
            self._due += self._seconds(flow) * part / (1 - part) / others
            self._had[flow.key] = max(self._had[flow.key], self._due)

    def starts(self, flow: Flow) -> None:
        """A message of another flow has started: for its floor, or by its quanta."""
        if flow.key not in self.run_times:
            self._uncounted.add(flow.key)
        had = self._had.get(flow.key)
        if had is not None:
            self._had[flow.key] = max(had, min(had, self._due) + self._seconds(flow))

    def _seconds(self, flow: Flow) -> float:
        known = self.run_times.get(flow.key)
        return 0.0 if known is None else known.value
