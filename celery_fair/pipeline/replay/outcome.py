"""What came of a replay, by queue, or by whose messages they are."""

import math
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from celery_fair.pipeline.replay.line import Start

QUANTILES = (50, 90, 95, 99)
SCHEMA = (
    "scenario string, queue string, key string, started long, seconds double, mean double, "
    + ", ".join(f"p{each} double" for each in QUANTILES)
    + ", longest double, ended double"
)

COLUMNS = tuple(column.split()[0] for column in SCHEMA.split(", "))


Whose = tuple[str, str | None]
"""A queue, and a key or none."""


@dataclass
class Outcome:
    """One queue's, or one key's."""

    waits: "array[float]" = field(default_factory=lambda: array("d"))
    seconds: float = 0.0
    ended: float = -math.inf

    def add(self, start: Start) -> None:
        self.waits.append(start.at - start.message.published)
        self.seconds += start.message.runtime
        self.ended = max(self.ended, start.at + start.message.runtime)

    def row(self, scenario: str, queue: str, key: str | None = None) -> tuple[Any, ...]:
        """Return a row of `SCHEMA`."""
        waits = sorted(self.waits)
        quantiles = (quantile(waits, each) for each in QUANTILES)
        n = len(waits)
        mean = math.fsum(waits) / n
        return (scenario, queue, key, n, self.seconds, mean, *quantiles, waits[-1], self.ended)


def outcomes(starts: Iterable[Start], by_key: bool = False) -> dict[Whose, Outcome]:
    """Return what came of each queue, or of each key of a queue; None are the messages of none."""
    made: dict[Whose, Outcome] = {}
    for start in starts:
        message = start.message
        whose = message.queue, message.key if by_key else None
        outcome = made.get(whose)
        if outcome is None:
            outcome = made[whose] = Outcome()
        outcome.add(start)
    return made


def quantile(ordered: list[float], percent: float) -> float:
    """Return the least value with at least `percent` of all at or below it."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]
