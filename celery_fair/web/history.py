"""What queues did at each of the last ticks, for the lines.

It is filled in by two readers: `collector` has a tick each time that workers answer, and
`log_collector` one for each minute of the event log. A row of numbers a queue and tick is kept, and
figures are made of rows when lines are drawn.
"""

import math
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["History", "Tick"]


@dataclass
class Tick:
    """What all queues did at a time, or in a minute.

    Attributes:
        time: in seconds since 1970; when the minute begins.
        rows: numbers by queue, as the reader keeps them.
        charged: what was charged for all that started in it, if the reader keeps that.
    """

    time: float
    rows: dict[str, "array[float]"] = field(default_factory=dict)
    charged: float = 0.0


class History:
    """The last ticks. One thread adds to it; all else from any thread.

    Arguments:
        figure: returns a queue's figure at a tick, by their names; None where it is not known.
        ticks: how many are kept.
    """

    def __init__(self, figure: Callable[[Tick, str, str], float | None], ticks: int) -> None:
        self._figure = figure
        self.ticks: deque[Tick] = deque(maxlen=ticks)

    def lines(
        self, queues: Iterable[str], figures: Sequence[str], which: slice = slice(None)
    ) -> dict[str, Any]:
        """Return times, and each queue's figures in turn, as JSON has them.

        Arguments:
            which: of the ticks.
        """
        ticks = list(self.ticks)[which]
        return {
            "times": [tick.time for tick in ticks],
            "figures": figures,
            "lines": [
                [_rounded(self._figure(tick, queue, figure)) for tick in ticks]
                for queue in queues
                for figure in figures
            ],
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else float(f"{value:.4g}")
