"""Queues' figures as rows of text, in tables with the columns that a width has room for.

What one answer does not show, `Trends` does: how a share has developed, and starts per second.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, NamedTuple

from celery_fair.cli.screen import Line, Part, Rows, Table
from celery_fair.operate.sums import aim_in_words
from celery_fair.operate.text import duration, figure


@dataclass(frozen=True)
class Row:
    """One queue of one worker.

    Attributes:
        queue: its name.
        figures: as the worker answers to ``fair_status``.
        trend: how its share has developed, as a sparkline.
        per_second: starts per second, if known.
    """

    queue: str
    figures: Mapping[str, Any]
    trend: str = ""
    per_second: float | None = None


Text = Callable[[Row], str]


class Column(NamedTuple):
    """A figure's heading and text; where space is short, others may do instead."""

    head: str
    text: Text
    short_head: str | None = None
    short_text: Text | None = None

    @property
    def short(self) -> "Column":
        """The column where space is short."""
        return Column(self.short_head or self.head, self.short_text or self.text)


def _until(seconds: float) -> str:
    return "grows" if seconds == inf else "now" if not seconds else duration(seconds)


def _waiting(row: Row) -> str:
    return duration(row.figures["waiting_seconds"]) if row.figures["buffered"] else "–"


def _held(row: Row) -> str:
    figures = row.figures
    everywhere = figures.get("workers", 1)
    if figures["held"] and figures.get("held_workers", everywhere) < everywhere:
        return f"{figures['held']} on {figures['held_workers']} of {everywhere}"
    if figures["held"] == "cap":
        return f"cap {figures['max_in_flight']}"
    if figures["held"] == "leash":
        return f"leash {duration(figures['throttled_seconds'])}"
    return figures["held"] or ""


def _limits(row: Row) -> str:
    figures = row.figures
    limits = []
    if figures["rate"] is not None:
        limits.append(f"{figures['rate']:.4g}/s, burst {figures['burst']}")
    if figures["max_in_flight"] is not None:
        limits.append(f"at most {figures['max_in_flight']}")
    return "; ".join(limits)


def _aim(row: Row) -> str:
    return aim_in_words(row.figures.get("aim"))


def _per_second(row: Row) -> str:
    return "–" if row.per_second is None else figure(row.per_second)


def _buffered_of_window(row: Row) -> str:
    return f"{figure(row.figures['buffered'])}/{figure(row.figures['window'])}"


def _known(key: str, text: Callable[[float], str]) -> Text:
    return lambda row: "–" if row.figures[key] is None else text(row.figures[key])


def _number(key: str) -> Text:
    return lambda row: figure(row.figures[key])


def _part(key: str, unit: str = "") -> Text:
    return lambda row: f"{100 * row.figures[key]:.1f}{unit}"


COLUMNS = {
    "queue": Column("queue", lambda row: row.queue),
    "quantum": Column("quantum", _number("quantum"), "quan-\ntum"),
    "class": Column("class", _number("class")),
    "target": Column("target", _part("target_share", " %"), "tar-\nget %", _part("target_share")),
    "share": Column("share", _part("share", " %"), "share\n%", _part("share")),
    "trend": Column("trend", lambda row: row.trend),
    "credit": Column("credit", _number("credit")),
    "window": Column("window", _number("window")),
    "buffered": Column("buffered", _number("buffered"), "buffer\n/window", _buffered_of_window),
    "in_flight": Column("in flight", _number("in_flight"), "in\nflight"),
    "served": Column("served", _number("served")),
    "per_second": Column("starts/s", _per_second, "starts\n/s"),
    "waiting": Column("waiting", _waiting, "wait-\ning"),
    "workers": Column("workers", _number("workers"), "work-\ners"),
    "at_broker": Column("at broker", _known("waiting_at_broker", figure), "at\nbroker"),
    "at_workers": Column("at workers", _number("buffered"), "at\nworkers"),
    "oldest": Column("oldest", _known("oldest_seconds", duration), "old-\nest"),
    "empty": Column("empty in", _known("empty_in_seconds", _until), "empty\nin"),
    "aim": Column("wait, target", _aim),
    "held": Column("held back", _held, "held\nback"),
    "limits": Column("limits", _limits),
}

STATUS = (
    *("queue", "quantum", "class", "target", "share", "credit", "window", "buffered", "in_flight"),
    *("served", "waiting", "aim", "held", "limits"),
)
LIVE = (
    *("queue", "quantum", "class", "target", "share", "trend", "credit", "window", "buffered"),
    *("in_flight", "per_second", "waiting", "aim", "held", "limits"),
)
SUMMED = (
    *("queue", "workers", "class", "target", "share", "trend", "per_second", "in_flight"),
    *("at_workers", "at_broker", "oldest", "empty", "aim", "held"),
)
"""Of a queue over all workers; the trend is left out where there is none."""
SPARED = {"quantum", "credit", "window"}
"""Those of `LIVE` that a narrow terminal has no room for."""

_SPARED = {STATUS: {"window"}, LIVE: SPARED, SUMMED: {"trend", "workers"}}

_IF_ANY = {"class": "0", "limits": "", "held": "", "trend": "", "aim": ""}
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


def title(workers: Collection[str]) -> str:
    """Return what to write above figures over all workers."""
    names = ", ".join(sorted(workers)[:3]) + (", …" if len(workers) > 3 else "")
    return f"{len(workers)} workers: {names}" if len(workers) > 1 else names


_BARS = "▁▂▃▄▅▆▇█"
_LENGTH = 12
_KNOWN = 4
"""Pictures after which it is known whether more comes than starts."""


class Trends:
    """Remembers the last answers of every worker's queues. Time is an argument."""

    def __init__(self) -> None:
        self._ratios: dict[tuple[str, str], deque[float | None]] = {}
        self._served: dict[tuple[str, str], tuple[int, float]] = {}
        self._left: dict[str, deque[tuple[int, float]]] = {}

    def rows(self, worker: str, queues: Mapping[str, Any], now: float) -> list[Row]:
        """Take in a worker's answer; return its rows with what they have become since."""
        return [
            Row(
                queue,
                figures,
                sparkline(self._ratio(worker, queue, figures)),
                self._per_second(worker, queue, figures["served"], now),
            )
            for queue, figures in queues.items()
        ]

    def sums(self, queues: Mapping[str, dict[str, Any]], now: float) -> list[Row]:
        """Take in figures over all workers; return their rows, and when what waits is gone."""
        for queue, figures in queues.items():
            figures["empty_in_seconds"] = self._empty_in(queue, figures, now)
        rows = self.rows("", queues, now)
        return [replace(row, per_second=row.figures["per_second"]) for row in rows]

    def _empty_in(self, queue: str, figures: Mapping[str, Any], now: float) -> float | None:
        """By what has become of it since some pictures ago; infinite if it is not less."""
        depth = figures["waiting_at_broker"]
        if depth is None:
            self._left.pop(queue, None)
            return None
        left = depth + figures["buffered"]
        known = self._left.setdefault(queue, deque(maxlen=_LENGTH))
        known.append((left, now))
        before, then = known[0]
        if not left:
            return 0.0
        if len(known) < _KNOWN or now <= then:
            given = figures["empty_in_seconds"]
            return None if given is None else float(given)
        return left * (now - then) / (before - left) if left < before else inf

    def _ratio(self, worker: str, queue: str, figures: Mapping[str, Any]) -> deque[float | None]:
        ratios = self._ratios.setdefault((worker, queue), deque(maxlen=_LENGTH))
        target = figures["target_share"]
        ratios.append(figures["share"] / target if target else None)
        return ratios

    def _per_second(self, worker: str, queue: str, served: int, now: float) -> float | None:
        before = self._served.get((worker, queue))
        self._served[worker, queue] = (served, now)
        if before is None or served < before[0] or now <= before[1]:  # the first, or started anew
            return None
        return (served - before[0]) / (now - before[1])


def sparkline(ratios: deque[float | None]) -> str:
    """Return one bar for each share by its target: half high on target, full at twice that."""
    bars = [
        " " if ratio is None else _BARS[min(int(ratio / 2 * len(_BARS)), len(_BARS) - 1)]
        for ratio in ratios
    ]
    return "".join(bars).rjust(_LENGTH)
