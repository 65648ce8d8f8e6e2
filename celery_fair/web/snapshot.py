"""All workers at one moment, and what that is of each queue.

A worker's share of a queue is of what that worker served. Of all workers together it is weighed by
what each of them served in those ten seconds, and so is the target.
"""

from collections import UserDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from marshal import dumps, loads
from typing import Any, NamedTuple

from celery_fair.operate.sums import aim_in_words, aim_of
from celery_fair.worker.observe.figures import BOUNDS

Rows = Mapping[str, Mapping[str, Any]]
"""A worker's answer to ``fair_status``: by queue, its figures."""


class Packed(UserDict[str, Any]):
    """Rows by queue, each as a string of bytes until it is looked at.

    Python's garbage collector looks through all that may hold something else, while all else
    stands still: through the answers of a hundred workers with a thousand queues each for half a
    second. A string holds nothing.
    """

    def __init__(self, rows: Rows) -> None:
        super().__init__()
        self.data = {queue: dumps(dict(row)) for queue, row in rows.items()}

    def __getitem__(self, queue: str) -> Mapping[str, Any]:
        row: Mapping[str, Any] = loads(self.data[queue])  # noqa: S302 - made here
        return row


class Earlier(NamedTuple):
    """What had been counted at some earlier time, by worker."""

    time: float
    counts: Mapping[str, Rows]

    @classmethod
    def of(cls, time: float, workers: Mapping[str, Rows]) -> "Earlier":
        """Keep of the workers' answers what is counted up."""
        counted = ("served", "waits")
        return cls(
            time,
            {
                worker: Packed({q: {n: row.get(n) for n in counted} for q, row in rows.items()})
                for worker, rows in workers.items()
            },
        )


@dataclass
class Sum:
    """Figures of several rows together: of a worker's queues, or of a queue at its workers.

    Attributes:
        rows: how many there are.
        started: messages since the earlier time.
        per_second: that, if known.
        held_at: how many rows are held back.
    """

    name: str
    rows: int = 0
    buffered: int = 0
    in_flight: int = 0
    served: int = 0
    started: int = 0
    per_second: float | None = None
    held_at: int = 0

    def take(self, row: Mapping[str, Any], before: Mapping[str, Any] | None) -> None:
        """Take in one more row.

        Arguments:
            before: its starts and waits at the earlier time; None if it was not there.
        """
        self.rows += 1
        self.buffered += row["buffered"]
        self.in_flight += row["in_flight"]
        self.served += row["served"]
        self.held_at += row["held"] is not None
        if before is not None:
            self.started += max(0, row["served"] - before["served"])


@dataclass
class Queue(Sum):
    """A queue's figures, of all workers together.

    Attributes:
        quanta: its quantum at each of them.
        target, share: as at `celery_fair.worker.observe.answers.Answers.status`.
        waiting: messages at the broker; None if it was not asked, or does not say.
        oldest: seconds that the first of those at a worker has waited there.
        age: seconds since the oldest of those was published; None if no publisher says.
        held: what holds it back, at which workers.
        limits: rates, bursts and caps, with how many workers have each.
        waits: messages that were started lately, by how long they had waited at their worker.
        aims: how its target is kept by each of them.
    """

    quanta: set[float] = field(default_factory=set)
    level: int = 0
    by_key: bool = False
    target: float = 0.0
    share: float = 0.0
    credit: float = 0.0
    window: int = 0
    waiting: int | None = None
    oldest: float = 0.0
    age: float | None = None
    held: dict[str, int] = field(default_factory=dict)
    limits: dict[tuple[Any, Any, Any], int] = field(default_factory=dict)
    waits: list[int] = field(default_factory=list)
    aims: list[Any] = field(default_factory=list)

    def add(
        self,
        row: Mapping[str, Any],
        weight: float,
        before: Mapping[str, Any] | None = None,
        now: float = 0.0,
    ) -> None:
        """Take in what one more worker says.

        Arguments:
            weight: what that worker served of all that was served.
            before: as `take`.
            now: when it said so, in seconds since 1970.
        """
        self.take(row, before)
        self.quanta.add(row["quantum"])
        self.level = row["class"]
        self.by_key = row.get("by_key", False)
        self.target += row["target_share"] * weight
        self.share += row["share"] * weight
        self.aims.append(row.get("aim"))
        self.credit += row["credit"]
        self.window += row["window"]
        if before is not None:
            self._add_waits(row, before)
        if row["buffered"]:
            self.oldest = max(self.oldest, row["waiting_seconds"])
            if (published := row.get("oldest_published")) is not None:
                self.age = max(self.age or 0.0, now - published)
        if row["held"]:
            self.held[row["held"]] = self.held.get(row["held"], 0) + 1
        limits = row["rate"], row["burst"], row["max_in_flight"]
        if limits != (None, None, None):
            self.limits[limits] = self.limits.get(limits, 0) + 1

    def _add_waits(self, row: Mapping[str, Any], before: Mapping[str, Any]) -> None:
        waits = row.get("waits")
        if waits and row["served"] != before["served"]:
            then = before["waits"] or [0] * len(waits)
            new = [max(0, now - was) for now, was in zip(waits, then, strict=True)]
            self.waits = [a + b for a, b in zip(self.waits or [0] * len(new), new, strict=True)]

    @property
    def quantum(self) -> float:
        """The largest that it has at a worker."""
        return max(self.quanta)

    @property
    def aim(self) -> Mapping[str, Any] | None:
        """How its target is kept by all of them; None if it has none."""
        return aim_of(self.aims)

    @property
    def missed(self) -> bool:
        """Whether it has a target that is missed."""
        return self.aim is not None and bool(self.aim["missed"])

    @property
    def aim_in_words(self) -> str:
        return aim_in_words(self.aim)

    @property
    def backlog(self) -> int:
        """Messages that wait, at the broker and at workers."""
        return self.buffered + (self.waiting or 0)

    @property
    def median(self) -> float | None:
        """What half of the waits of late are below of, in seconds."""
        return quantile(self.waits, 0.5)

    @property
    def p95(self) -> float | None:
        """What 95 % of them are."""
        return quantile(self.waits, 0.95)

    @property
    def empty_in(self) -> float | None:
        """Seconds until it is empty at this rate, if nothing comes in; None if nobody knows."""
        return self.backlog / self.per_second if self.per_second else None


@dataclass(frozen=True)
class Snapshot:
    """What has been answered.

    Attributes:
        number: which one it is, from 1 on; 0 if nobody was asked yet.
        time: when, in seconds since 1970.
        workers: what fair workers answered.
        notes, others, errors: what others did, as in `celery_fair.operate.answers.Answers`.
        silent: workers that have answered before, and when they did for the last time.
        trouble: why nobody could be asked.
        depths: messages at the broker, by queue.
        earlier: what to compare with.
    """

    number: int = 0
    time: float = 0.0
    workers: Mapping[str, Rows] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    silent: Mapping[str, float] = field(default_factory=dict)
    trouble: str = ""
    depths: Mapping[str, int] = field(default_factory=dict)
    earlier: Earlier | None = None

    @property
    def queues(self) -> Mapping[str, Queue]:
        """Every queue that a worker consumes, by its name."""
        return self._summed[0]

    @property
    def sums(self) -> Mapping[str, Sum]:
        """Every worker, by its name."""
        return self._summed[1]

    def consumers(self, queue: str) -> Rows:
        """Return the rows of a queue by worker, of those that consume it."""
        return {worker: rows[queue] for worker, rows in self.workers.items() if queue in rows}

    def packed(self) -> "Snapshot":
        """Return the same with its sums computed, and its rows packed."""
        small = replace(self, workers={w: Packed(rows) for w, rows in self.workers.items()})
        vars(small).update(_summed=self._summed)
        return small

    @cached_property
    def _summed(self) -> tuple[dict[str, Queue], dict[str, Sum]]:
        queues: dict[str, Queue] = {}
        sums = {worker: Sum(worker) for worker in self.workers}
        served = {
            worker: sum(row.get("cost_per_second", 0.0) for row in rows.values())
            for worker, rows in self.workers.items()
        }
        total = sum(served.values())
        since, counts = self.earlier or Earlier(self.time, {})
        span = max(0.0, self.time - since)
        for worker, rows in self.workers.items():
            weight = served[worker] / total if total else 1 / len(self.workers)
            earlier, whole = counts.get(worker, {}), sums[worker]
            for name, row in rows.items():
                queue = queues.get(name)
                if queue is None:
                    queue = queues[name] = Queue(name, waiting=self.depths.get(name))
                before = earlier.get(name)
                queue.add(row, weight, before, self.time)
                whole.take(row, before)
            whole.per_second = whole.started / span if earlier and span else None
        for queue in queues.values():
            queue.per_second = queue.started / span if span else None
        return queues, sums


def quantile(waits: Sequence[float], part: float) -> float | None:
    """Return what so many of the waits are below of, in seconds, or None if there are none.

    Within a class waits are taken as spread evenly; of the last class nothing is known but its
    lower bound.
    """
    total = sum(waits)
    if not total:
        return None
    rank, below = part * total, 0.0
    for (lower, upper), count in zip(pairwise((0.0, *BOUNDS)), waits, strict=False):
        if count and below + count >= rank:
            return lower + (upper - lower) * (rank - below) / count
        below += count
    return BOUNDS[-1]
