"""What each queue got, and whether that is fair."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from celery_fair.cli.demo import demonstration
from celery_fair.cli.demo.shares.workload import COST, QUANTA, QUEUES, ROUND, TARGETS, Workload
from celery_fair.cli.demo.trace import Record

__all__ = ["TOLERANCE", "Run", "Shares", "timeline"]

TOLERANCE = 0.02
"""How far a share may be from its target, as a part of the target."""


@dataclass(frozen=True)
class Shares:
    """Messages consumed of each queue while all were backlogged.

    All messages cost the same, so shares of messages are shares of cost.
    """

    counts: tuple[int, ...]

    @classmethod
    def of(cls, records: Iterable[Record]) -> "Shares":
        """Count the records of each queue."""
        counts = Counter(queue for queue, _ in records)
        return cls(tuple(counts[number] for number in range(len(QUEUES))))

    @cached_property
    def total(self) -> int:
        """Messages of all queues."""
        return sum(self.counts)

    @cached_property
    def achieved(self) -> tuple[float, ...]:
        """Each queue's share of the messages consumed."""
        return tuple(count / (self.total or 1) for count in self.counts)

    @cached_property
    def errors(self) -> tuple[float, ...]:
        """share / target - 1 of each queue."""
        return tuple(
            share / target - 1 for share, target in zip(self.achieved, TARGETS, strict=True)
        )

    @property
    def max_error(self) -> float:
        """max |share / target - 1|: the headline."""
        return max(map(abs, self.errors))

    @property
    def ratio(self) -> float | None:
        """The last queue's count by the first one's; None if that got nothing."""
        return self.counts[-1] / self.counts[0] if self.counts[0] else None

    @property
    def jain(self) -> float:
        """Jain's index of count / quantum: (Σx)² / (n · Σx²), 1 when all are served alike."""
        each = [count / quantum for count, quantum in zip(self.counts, QUANTA, strict=True)]
        squares = sum(x * x for x in each)
        return sum(each) ** 2 / (len(each) * squares) if squares else 0.0

    @property
    def fair(self) -> bool:
        """Whether every queue is within the tolerance, or within one round of its target.

        A round is the scheduler's grain: a count that begins and ends anywhere within a round may
        be off by what one round serves of the queue, which matters only in short runs.
        """
        return bool(self.total) and all(
            abs(error) <= max(TOLERANCE, quantum / COST / (target * self.total))
            for error, quantum, target in zip(self.errors, QUANTA, TARGETS, strict=True)
        )


@dataclass(frozen=True)
class Run(demonstration.Run):
    """What a fair worker did; records have the number of their queue."""

    work: Workload

    @cached_property
    def starts(self) -> Sequence[Record]:
        """The starts up to the stop, in their order."""
        return self.started[: self.work.stop]

    @property
    def complete(self) -> bool:
        """Whether it has come to its stop."""
        return len(self.starts) == self.work.stop

    @cached_property
    def shares(self) -> Shares:
        """The shares, after the first windows have filled; before that, those so far."""
        return Shares.of(self.starts[self.work.warm_up :] or self.starts)

    @property
    def seconds(self) -> float:
        """From the first start to the last."""
        return self.starts[-1][1] - self.starts[0][1] if self.starts else 0.0

    @property
    def rate(self) -> float:
        """Starts per second."""
        return len(self.starts) / self.seconds if self.seconds > 0 else 0.0


def timeline(records: Sequence[Record], parts: int) -> list[tuple[float, Shares]]:
    """Cut records into about so many parts; return when each ends and its shares.

    Times are seconds from the first record. A part is a whole number of rounds, the scheduler's
    grain: in any other, shares would swing by what the part's last round has not served yet.
    """
    size = max(1, round(len(records) / parts / ROUND)) * ROUND
    ends = range(size, len(records) + 1, size)
    return [
        (records[end - 1][1] - records[0][1], Shares.of(records[end - size : end])) for end in ends
    ]
