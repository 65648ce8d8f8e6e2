"""A worker's rows as text, with the columns that a width has room for."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from celery_fair.cli.live.figures import COLUMNS, Column, Row

__all__ = ["LIVE", "STATUS", "fits", "rows_of", "table"]

STATUS = (
    *("queue", "quantum", "class", "target", "share", "credit", "window", "buffered", "in_flight"),
    *("served", "waiting", "held", "limits"),
)
LIVE = (
    *("queue", "quantum", "class", "target", "share", "trend", "credit", "window", "buffered"),
    *("in_flight", "per_second", "waiting", "held", "limits"),
)
SPARED = {"quantum", "credit", "window"}
"""Those of `LIVE` that a narrow terminal has no room for."""

_IF_ANY = {"class": "0", "limits": "", "held": ""}
"""Columns that are shown if any queue has something else there."""

_FULL_GAP = 2


def rows_of(queues: Mapping[str, Any]) -> list[Row]:
    """Return one row for each queue of a worker's answer."""
    return [Row(queue, figures) for queue, figures in queues.items()]


def table(names: Sequence[str], rows: Iterable[Row], width: float = math.inf) -> list[list[str]]:
    """Return the headings and the rows as text; the highest class first.

    Arguments:
        names: the columns, `STATUS` or `LIVE`.
        width: the terminal's. Where it is too small, limits are left out; if that is not enough,
            the window goes into the column of what is buffered, and what `LIVE` can spare goes.
    """
    rows = sorted(rows, key=lambda row: (-row.figures["class"], row.queue))
    columns = {name: COLUMNS[name] for name in names}
    text = _text(columns, rows)
    if not fits(text, width):
        del columns["limits"]
        text = _text(columns, rows)
    if not fits(text, width):
        spared = SPARED if names == LIVE else {"window"}
        text = _text({n: c.short for n, c in columns.items() if n not in spared}, rows)
    return text


def fits(text: Sequence[Sequence[str]], width: float) -> bool:
    """Whether a table can be drawn in a width without being squeezed."""
    widths = (
        max(len(line) for cell in column for line in cell.split("\n"))
        for column in zip(*text, strict=True)
    )
    return sum(each + _FULL_GAP for each in widths) + _FULL_GAP <= width


def _text(columns: Mapping[str, Column], rows: Sequence[Row]) -> list[list[str]]:
    shown = []
    for name, column in columns.items():
        cells = [column.text(row) for row in rows]
        if name not in _IF_ANY or any(cell != _IF_ANY[name] for cell in cells):
            shown.append([column.head, *cells])
    return [list(line) for line in zip(*shown, strict=True)]
