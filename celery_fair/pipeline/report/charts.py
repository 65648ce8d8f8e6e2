"""The report's pictures. Colours are classes of its style sheet, by number of the series."""

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from typing import NamedTuple

from celery_fair.pipeline.report.plot import Plot, svg, text

_WIDTH, _HEIGHT = 860, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 150, 12, 28
_LABEL = 14
_ROW = 22
_COLOURS = 12
_LETTERS = 20
"""Of a name that has room in `_RIGHT`."""


class Series(NamedTuple):
    """One line: its name, its points (time, value), and where it should be."""

    name: str
    points: Sequence[tuple[float, float]]
    targets: Sequence[tuple[float, float]]


def lines(series: Sequence[Series], label: str, gap: float) -> str:
    """Return values from 0 to 1 over time; targets are dotted.

    Arguments:
        gap: seconds between points above which a line is broken.
    """
    times = [at for each in series for at, _ in each.points]
    values = [v for each in series for points in (each.points, each.targets) for _, v in points]
    if not times:
        return ""
    first, last = min(times), max(times)
    last = max(last, first + gap)
    top = max(0.1, *values) * 1.05
    top = top if top > 1.06 else min(1.0, top)  # a log may show more tasks at once than slots
    plot = Plot(_LEFT, _WIDTH - _RIGHT, _TOP, _HEIGHT - _BOTTOM, first, last, top)
    drawn = [_line(number, each, plot, gap) for number, each in enumerate(series)]
    return svg(_WIDTH, _HEIGHT, label, [*_grid(plot), *drawn, *_names(series, plot)])


def _line(number: int, series: Series, plot: Plot, gap: float) -> str:
    share = _path(series.points, plot, gap)
    target = _path(series.targets, plot, gap)
    colour = f"c{number % _COLOURS}"
    title = f"<title>{escape(series.name)}</title>"
    return (
        f'<g class="{colour}">{title}<path class="target" d="{target}"/>'
        f'<path class="share" d="{share}"/></g>'
    )


def _path(points: Sequence[tuple[float, float]], plot: Plot, gap: float) -> str:
    steps = []
    before = None
    for at, value in points:
        move = "M" if before is None or at - before > gap else "L"
        place = f"{plot.x(at):.1f},{plot.y(value):.1f}"
        # A point without neighbours is a line of no length, which round caps make a dot.
        steps.append(f"M{place}L{place}" if move == "M" else f"L{place}")
        before = at
    return "".join(steps)


def _grid(plot: Plot) -> list[str]:
    span = plot.last - plot.first
    form = "%H:%M:%S" if span < 86_400 else "%d %b %H:%M"
    drawn = []
    for number in range(5):
        value, at = plot.highest * number / 4, plot.first + span * number / 4
        clock = datetime.fromtimestamp(at, UTC).strftime(form)
        anchor = ("start", "middle", "middle", "middle", "end")[number]
        drawn += [plot.grid(value, f"{value:.0%}"), plot.tick(at, clock, _BOTTOM - 8, anchor)]
    return drawn


def _names(series: Sequence[Series], plot: Plot) -> list[str]:
    """At the ends of their lines, moved apart where they would cover each other."""
    ends = [(plot.y(each.points[-1][1]), n) for n, each in enumerate(series) if each.points]
    drawn = []
    below = _TOP - _LABEL + 4.0
    room = sorted(ends)
    for left, (y, number) in enumerate(room):
        lowest = _HEIGHT - _BOTTOM - (len(room) - 1 - left) * _LABEL
        below = min(max(y, below + _LABEL), max(lowest, below + _LABEL))
        name = _short(series[number].name)
        drawn.append(text(plot.right + 8, below + 4, name, kind=f"name c{number % _COLOURS}"))
    return drawn


def _short(name: str) -> str:
    """A name that has room beside a chart: what tells names apart is mostly at their ends."""
    if len(name) <= _LETTERS:
        return name
    half = _LETTERS // 2
    return f"{name[: half - 2]}…{name[-half:]}"


def bars(
    rows: Sequence[tuple[str, Sequence[float]]], parts: Sequence[str], label: str, unit: str
) -> str:
    """Return a bar for each row, made of parts side by side."""
    most = max((sum(values) for _, values in rows), default=0.0)
    if most <= 0:
        return ""
    left, width = 150, _WIDTH - 150 - 90
    drawn = []
    for number, (name, values) in enumerate(rows):
        y = _TOP + number * _ROW
        drawn.append(text(left - 8, y + 12, _short(name), "end"))
        x = float(left)
        for part, value in enumerate(values):
            length = value / most * width
            title = f"<title>{escape(parts[part])}: {value:.4g} {unit}</title>"
            drawn.append(
                f'<rect class="part{part}" x="{x:.1f}" y="{y}" width="{length:.1f}" height="15">'
                f"{title}</rect>"
            )
            x += length
        drawn.append(text(x + 6, y + 12, f"{sum(values):,.4g} {unit}"))
    return svg(_WIDTH, _TOP + len(rows) * _ROW + 4, label, drawn)
