"""What queues did each time that workers answered, for the lines."""

import math
from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any


class History:
    """The last ticks: of each its time, in seconds since 1970, and a row of figures for each queue.

    One thread adds to it; all else from any thread.

    Arguments:
        figures: their names, in the order in which rows have them.
        ticks: how many are kept.
    """

    def __init__(self, figures: Sequence[str], ticks: int) -> None:
        self._figures = figures
        self.ticks: deque[tuple[float, dict[str, array[float]]]] = deque(maxlen=ticks)

    def lines(
        self, queues: Iterable[str], figures: Sequence[str], which: slice = slice(None)
    ) -> dict[str, Any]:
        """Return times, and each queue's figures in turn, as JSON has them.

        Arguments:
            which: of the ticks.
        """
        ticks = list(self.ticks)[which]
        places = [self._figures.index(figure) for figure in figures]
        rows = [[rows.get(queue) for _, rows in ticks] for queue in queues]
        lines = [[_rounded(row, at) for row in each] for each in rows for at in places]
        return {"times": [time for time, _ in ticks], "figures": figures, "lines": lines}


def _rounded(row: "array[float] | None", at: int) -> float | None:
    return None if row is None or math.isnan(row[at]) else float(f"{row[at]:.4g}")
