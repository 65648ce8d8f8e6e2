"""The HTML file: everything in it, nothing loaded. What it looks like is in the templates."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from celery_fair.pipeline.cells import cell, columns, moment
from celery_fair.pipeline.report.figures import Figures, Row

_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 848, 12, 272
"""Edges of a chart, in a picture of 860 by 300."""

_LETTERS = 20
"""Of a name that has room beside a picture."""

_STATES = ("ready_seconds", "starved_seconds", "held_seconds")
_OF_LOG = ("processes", "incomplete", "missing", "dropped", "silent")

Points = Sequence[tuple[float, float]]


class Series(NamedTuple):
    """One line: its name, its points (time, value), and where it should be."""

    name: str
    points: Points
    targets: Points = ()


def page(shown: Figures) -> str:
    """Return the report."""
    shares, capacity, gap = shown["shares"], shown["capacity"], 1.5 * shown["drawn"]
    of_log = {name: shown["processes"][name] for name in _OF_LOG}
    of_log |= {f"quarantined: {row['reason']}": row["count"] for row in shown["quarantine"]}
    drawn = {
        "shares": chart([_share(queue["queue"], shares) for queue in shown["queues"]], gap),
        "capacity": chart([Series("slots in use", _points(capacity, "utilisation"))], gap),
        "states": [(row["queue"], [row[name] for name in _STATES]) for row in shown["queues"]],
        "timed": [
            (row["queue"], [row["p50"], row["p95"] - row["p50"], row["p99"] - row["p95"]])
            for row in shown["waits"]
            if row["p50"] is not None and row["p50"] >= 0
        ],
        "counts": _listed("verdict", "attempts", shown["verdicts"]),
        "log": _listed("of the log", "count", of_log),
    }
    return templates().get_template("report.html").render(**(shown | drawn))


def templates() -> Environment:
    """Return what the report is made of."""
    made = Environment(
        loader=PackageLoader("celery_fair.pipeline", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(cell=_cell, columns=columns, moment=moment, short=_short)
    return made


def _share(queue: str, rows: Sequence[Row]) -> Series:
    mine = [row for row in rows if row["queue"] == queue]
    return Series(queue, _points(mine, "share"), _points(mine, "target"))


def _points(rows: Sequence[Row], name: str) -> Points:
    return [(row["since"], row[name]) for row in rows]


def _listed(name: str, count: str, counts: dict[str, int]) -> list[Row]:
    return [{name: each, count: f"{n:,}"} for each, n in counts.items()]


# Words ------------------------------------------------------------------------


def _cell(row: Row, name: str) -> str:
    value = cell(row, name)
    if value is None:
        return "–"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def _short(name: str) -> str:
    """A name that has room beside a picture: what tells names apart is mostly at their ends."""
    half = _LETTERS // 2
    return name if len(name) <= _LETTERS else f"{name[: half - 2]}…{name[-half:]}"


# Lines ------------------------------------------------------------------------


def chart(series: Sequence[Series], gap: float) -> dict[str, Any] | None:
    """Return where everything of a chart is; None if there is nothing to draw.

    Arguments:
        gap: seconds between points above which a line is broken.
    """
    times = [at for each in series for at, _ in each.points]
    if not times:
        return None
    first, last = min(times), max(*times, min(times) + gap)
    top = 1.05 * max(0.1, *(v for each in series for _, v in (*each.points, *each.targets)))
    top = top if top > 1.06 else min(1.0, top)  # a log may show more tasks at once than slots

    def place(at: float, value: float) -> tuple[float, float]:
        across = (at - first) / (last - first) * (_RIGHT - _LEFT)
        return round(_LEFT + across, 1), round(_BOTTOM - value / top * (_BOTTOM - _TOP), 1)

    def path(points: Points) -> str:
        steps, before = [], None
        for at, value in points:
            x, y = place(at, value)
            # A point without neighbours is a line of no length, which round caps make a dot.
            begins = before is None or at - before > gap
            steps.append(f"M{x},{y}L{x},{y}" if begins else f"L{x},{y}")
            before = at
        return "".join(steps)

    form = "%H:%M:%S" if last - first < 86_400 else "%d %b %H:%M"
    steps = [(first + (last - first) * part / 4, top * part / 4) for part in range(5)]
    return {
        "left": _LEFT,
        "right": _RIGHT,
        "levels": [(place(at, value)[1], f"{value:.0%}") for at, value in steps],
        "ticks": [
            (place(at, value)[0], datetime.fromtimestamp(at, UTC).strftime(form))
            for at, value in steps
        ],
        "lines": [(each.name, path(each.points), path(each.targets)) for each in series],
    }
