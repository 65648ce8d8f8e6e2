"""Workers' rows as tables, with the columns that a width has room for."""

from collections.abc import Iterable, Mapping, Sequence

from celery_fair.cli.live.figures import COLUMNS, Column, Row
from celery_fair.cli.screen import Line, Part, Rows, Table

__all__ = ["LIVE", "STATUS", "SUMMED", "tables"]

STATUS = (
    *("queue", "quantum", "class", "target", "share", "credit", "window", "buffered", "in_flight"),
    *("served", "waiting", "held", "limits"),
)
LIVE = (
    *("queue", "quantum", "class", "target", "share", "trend", "credit", "window", "buffered"),
    *("in_flight", "per_second", "waiting", "held", "limits"),
)
SUMMED = (
    *("queue", "workers", "class", "target", "share", "trend", "per_second", "in_flight"),
    *("at_workers", "at_broker", "oldest", "empty", "held"),
)
"""Of a queue over all workers; the trend is left out where there is none."""
SPARED = {"quantum", "credit", "window"}
"""Those of `LIVE` that a narrow terminal has no room for."""

_SPARED = {STATUS: {"window"}, LIVE: SPARED, SUMMED: {"trend", "workers"}}

_IF_ANY = {"class": "0", "limits": "", "held": "", "trend": ""}
"""Columns that are shown if any queue has something else there."""

_MARKED = (COLUMNS["held"].head, COLUMNS["held"].short.head)
_FULL_GAP = 2


def tables(
    names: tuple[str, ...], workers: Mapping[str, Sequence[Row]], width: float
) -> list[Part]:
    """Return a table of each worker's queues, or of all of them, the highest class first.

    Arguments:
        names: the columns, `STATUS`, `LIVE` or `SUMMED`.
        width: the terminal's. Where it is too small, limits are left out; if that is not enough,
            the window goes into the column of what is buffered, and what `LIVE` can spare goes.
    """
    texts = {worker: _table(names, rows, width) for worker, rows in workers.items() if rows}
    tight = not all(_fits(text, width) for text in texts.values())
    return [
        Table(texts[worker], worker, tight, _MARKED)
        if rows
        else Line(f"{worker}: consumes no queue", "bold")
        for worker, rows in workers.items()
    ]


def _table(names: tuple[str, ...], rows: Iterable[Row], width: float) -> Rows:
    rows = sorted(rows, key=lambda row: (-row.figures["class"], row.queue))
    columns = {name: COLUMNS[name] for name in names}
    text = _text(columns, rows)
    if not _fits(text, width):
        columns.pop("limits", None)
        text = _text(columns, rows)
    if not _fits(text, width):
        spared = _SPARED[names]
        text = _text({n: c.short for n, c in columns.items() if n not in spared}, rows)
    return text


def _fits(text: Rows, width: float) -> bool:
    """Whether a table can be drawn in a width without being squeezed."""
    widths = (
        max(len(line) for cell in column for line in cell.split("\n"))
        for column in zip(*text, strict=True)
    )
    return sum(each + _FULL_GAP for each in widths) + _FULL_GAP <= width


def _text(columns: Mapping[str, Column], rows: Sequence[Row]) -> Rows:
    shown = []
    for name, column in columns.items():
        cells = [column.text(row) for row in rows]
        if name not in _IF_ANY or any(cell != _IF_ANY[name] for cell in cells):
            shown.append([column.head, *cells])
    return [list(line) for line in zip(*shown, strict=True)]
