"""All workers at one moment, and what that is of each queue."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from celery_fair.operate.sums import Figures, added, by_queue

Rows = Mapping[str, Figures]
"""Figures: of a worker by queue, or of a queue by worker."""


@dataclass
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
        queues: every queue that a worker consumes, by its name.
        sums: every worker, by its name.
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

    def __post_init__(self) -> None:
        found = by_queue(self.workers, self.depths, {}, self.time)
        self.queues: Rows = {
            name: {
                **figures,
                "name": name,
                "backlog": figures["buffered"] + (figures["waiting_at_broker"] or 0),
                "missed": bool(figures["aim"] and figures["aim"]["missed"]),
            }
            for name, figures in found.items()
        }
        self.sums: Rows = {
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
