"""All workers at one moment, and what that is of each queue.

A worker's share of a queue is of what that worker served. Of all workers together it is weighed by
what each of them served in those ten seconds, and so is the target.
"""

from collections import Counter, UserDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from marshal import dumps, loads
from typing import Any, Self

from celery_fair.operate.sums import aim_of

Row = Mapping[str, Any]
"""A queue's figures at a worker."""

Rows = Mapping[str, Row]
"""Such rows: of a worker by queue, as it answers to ``fair_status``, or of a queue by worker."""


class Packed(UserDict[str, Any]):
    """Rows by queue, each as a string of bytes until it is looked at.

    Python's garbage collector looks through all that may hold something else, while all else
    stands still: through the answers of a hundred workers with a thousand queues each for half a
    second. A string holds nothing.
    """

    def __init__(self, rows: Rows) -> None:
        super().__init__()
        self.data = {queue: dumps(dict(row)) for queue, row in rows.items()}

    def __getitem__(self, queue: str) -> Row:
        row: Row = loads(self.data[queue])  # noqa: S302 - made here
        return row


@dataclass
class Sum:
    """Figures of several rows together: of a worker's queues, or of a queue at its workers.

    Attributes:
        rows: how many there are.
        per_second: starts, in the last ten seconds.
        held_at: how many rows are held back.
    """

    name: str
    rows: int = 0
    buffered: int = 0
    in_flight: int = 0
    served: int = 0
    per_second: float = 0.0
    held_at: int = 0

    @classmethod
    def of(cls, name: str, rows: Collection[Row], **more: Any) -> Self:
        """Sum rows up.

        Arguments:
            more: attributes of a subclass.
        """
        sums = {each: sum(row[each] for row in rows) for each in _ADDED}
        held_at = sum(row["held"] is not None for row in rows)
        return cls(name, rows=len(rows), held_at=held_at, **sums, **more)


_ADDED = ("buffered", "in_flight", "served", "per_second")


@dataclass
class Queue(Sum):
    """A queue's figures, of all workers together.

    Attributes:
        quanta: its quantum at each of them.
        target, share: as at `celery_fair.worker.observe.answers.Answers.status`.
        waiting: messages at the broker; None if it was not asked, or does not say.
        oldest: seconds that the first of those at a worker has waited there.
        age: seconds since the oldest of those was published; None if no publisher says.
        held: what holds it back, at how many workers.
        limits: rates, bursts and caps, as workers have them.
        aim: how its target is kept by all of them; None if it has none.
    """

    quanta: Collection[float] = ()
    level: int = 0
    by_key: bool = False
    target: float = 0.0
    share: float = 0.0
    window: int = 0
    waiting: int | None = None
    oldest: float = 0.0
    age: float | None = None
    held: Mapping[str, int] = field(default_factory=dict)
    limits: Collection[tuple[Any, Any, Any]] = ()
    aim: Mapping[str, Any] | None = None

    @property
    def quantum(self) -> float:
        """The largest that it has at a worker."""
        return max(self.quanta)

    @property
    def missed(self) -> bool:
        """Whether it has a target that is missed."""
        return self.aim is not None and bool(self.aim["missed"])

    @property
    def backlog(self) -> int:
        """Messages that wait, at the broker and at workers."""
        return self.buffered + (self.waiting or 0)

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
        at: dict[str, dict[str, Row]] = {}
        for worker, rows in self.workers.items():
            for queue, row in rows.items():
                at.setdefault(queue, {})[worker] = row
        served = {
            worker: sum(row["cost_per_second"] for row in rows.values())
            for worker, rows in self.workers.items()
        }
        total = sum(served.values())
        weights = {w: of / total if total else 1 / len(served) for w, of in served.items()}
        queues = {queue: self._queue(queue, rows, weights) for queue, rows in at.items()}
        return queues, {
            worker: Sum.of(worker, rows.values()) for worker, rows in self.workers.items()
        }

    def _queue(self, name: str, at: Rows, weights: Mapping[str, float]) -> Queue:
        """Sum a queue up.

        Arguments:
            at: its row at each worker.
            weights: what each worker served of all that was served.
        """
        rows = at.values()
        waiting = [row for row in rows if row["buffered"]]
        published = [row["oldest_published"] for row in waiting if row.get("oldest_published")]
        limits = ((row["rate"], row["burst"], row["max_in_flight"]) for row in rows)
        some = next(iter(rows))
        return Queue.of(
            name,
            rows,
            quanta={row["quantum"] for row in rows},
            level=some["class"],
            by_key=some["by_key"],
            target=sum(row["target_share"] * weights[worker] for worker, row in at.items()),
            share=sum(row["share"] * weights[worker] for worker, row in at.items()),
            window=sum(row["window"] for row in rows),
            waiting=self.depths.get(name),
            oldest=max((row["waiting_seconds"] for row in waiting), default=0.0),
            age=self.time - min(published) if published else None,
            held=Counter(row["held"] for row in rows if row["held"]),
            limits=dict.fromkeys(each for each in limits if any(each)),
            aim=aim_of([row.get("aim") for row in rows]),
        )
