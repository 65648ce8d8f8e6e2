"""What came of a replay, by queue."""

import math
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from celery_fair.pipeline.replay.machine import Start

__all__ = ["QUANTILES", "SCHEMA", "Outcome", "outcomes", "quantile"]

QUANTILES = (50, 90, 95, 99)
SCHEMA = (
    "scenario string, queue string, started long, seconds double, mean double, "
    + ", ".join(f"p{each} double" for each in QUANTILES)
    + ", longest double, ended double"
)


@dataclass
class Outcome:
    """One queue's."""

    waits: "array[float]" = field(default_factory=lambda: array("d"))
    seconds: float = 0.0
    ended: float = -math.inf

    def add(self, start: Start) -> None:
        self.waits.append(start.at - start.message.published)
        self.seconds += start.message.runtime
        self.ended = max(self.ended, start.at + start.message.runtime)

    def row(self, scenario: str, queue: str) -> tuple[Any, ...]:
        """Return a row of `SCHEMA`."""
        waits = sorted(self.waits)
        quantiles = (quantile(waits, each) for each in QUANTILES)
        mean = math.fsum(waits) / len(waits)
        n = len(waits)
        return (scenario, queue, n, self.seconds, mean, *quantiles, waits[-1], self.ended)


def outcomes(starts: Iterable[Start]) -> dict[str, Outcome]:
    """Return what came of each queue."""
    made: dict[str, Outcome] = {}
    for start in starts:
        made.setdefault(start.message.queue, Outcome()).add(start)
    return made


def quantile(ordered: list[float], percent: float) -> float:
    """Return the least value with at least `percent` of all at or below it."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]
