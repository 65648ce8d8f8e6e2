"""What queues did each time that workers answered, for the lines.

A row of numbers a queue and tick is kept, and figures are made of rows when lines are drawn.
"""

import math
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Tick:
    """What all queues did at a time.

    Attributes:
        time: in seconds since 1970.
        rows: numbers by queue, as `collector` keeps them.
    """

    time: float
    rows: dict[str, "array[float]"] = field(default_factory=dict)


class History:
    """The last ticks. One thread adds to it; all else from any thread.

    Arguments:
        figures: returns a queue's figures at a tick, by their names, those that are known.
        ticks: how many are kept.
    """

    def __init__(
        self, figures: Callable[[Tick, str], Mapping[str, float | None]], ticks: int
    ) -> None:
        self._figures = figures
        self.ticks: deque[Tick] = deque(maxlen=ticks)

    def lines(
        self, queues: Iterable[str], figures: Sequence[str], which: slice = slice(None)
    ) -> dict[str, Any]:
        """Return times, and each queue's figures in turn, as JSON has them.

        Arguments:
            which: of the ticks.
        """
        ticks = list(self.ticks)[which]
        lines: list[list[float | None]] = []
        for queue in queues:
            known = [self._figures(tick, queue) for tick in ticks]
            lines += [[_rounded(each.get(figure)) for each in known] for figure in figures]
        return {"times": [tick.time for tick in ticks], "figures": figures, "lines": lines}


def _rounded(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else float(f"{value:.4g}")
