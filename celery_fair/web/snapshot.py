"""All workers at one moment, and what that is of each queue."""

from collections import UserDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from marshal import dumps, loads
from typing import Any

from celery_fair.operate.sums import Figures, added, by_queue

Rows = Mapping[str, Figures]
"""Figures: of a worker by queue, or of a queue by worker."""


class Packed(UserDict[str, Any]):
    """Rows by queue, each as a string of bytes until it is looked at.

    Python's garbage collector looks through all that may hold something else, while all else
    stands still: through the answers of a hundred workers with a thousand queues each for half a
    second. A string holds nothing.
    """

    def __init__(self, rows: Rows) -> None:
        super().__init__()
        self.data = {queue: dumps(dict(row)) for queue, row in rows.items()}

    def __getitem__(self, queue: str) -> Figures:
        row: Figures = loads(self.data[queue])  # noqa: S302 - made here
        return row


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

    @cached_property
    def queues(self) -> Mapping[str, Figures]:
        """Every queue that a worker consumes, by its name."""
        found = by_queue(self.workers, self.depths, {}, self.time)
        return {
            name: {
                **figures,
                "name": name,
                "backlog": figures["buffered"] + (figures["waiting_at_broker"] or 0),
                "missed": bool(figures["aim"] and figures["aim"]["missed"]),
            }
            for name, figures in found.items()
        }

    @cached_property
    def sums(self) -> Mapping[str, Figures]:
        """Every worker, by its name."""
        return {
            worker: {
                **added(rows.values()),
                "name": worker,
                "queues": len(rows),
                "held_queues": sum(bool(row["held"]) for row in rows.values()),
            }
            for worker, rows in self.workers.items()
        }

    def consumers(self, queue: str) -> Rows:
        """Return the rows of a queue by worker, of those that consume it."""
        return {worker: rows[queue] for worker, rows in self.workers.items() if queue in rows}

    def packed(self) -> "Snapshot":
        """Return the same with its sums computed, and its rows packed."""
        small = replace(self, workers={w: Packed(rows) for w, rows in self.workers.items()})
        vars(small).update(queues=self.queues, sums=self.sums)
        return small
