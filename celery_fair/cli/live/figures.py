"""A queue's row: each figure as text."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

__all__ = ["COLUMNS", "Column", "Row", "duration", "figure"]


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


def figure(value: float) -> str:
    """Return a number in at most six characters or so."""
    if abs(value) < 10:
        return f"{value:.3g}"
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e5, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.4g}{unit}"
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:.4g}"


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    hours = seconds / 3600
    return f"{hours:.0f} h" if hours < 100 else f"{figure(hours / 24)} d"


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
    "held": Column("held back", _held, "held\nback"),
    "limits": Column("limits", _limits),
}
