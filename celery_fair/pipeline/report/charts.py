"""Pictures as SVG text. Colours are classes of the page's style sheet, by number of the series."""

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from typing import NamedTuple

__all__ = ["Series", "bars", "lines"]

_WIDTH, _HEIGHT = 860, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 150, 12, 28
_LABEL = 14
_ROW = 22
_COLOURS = 12


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
    axes = _Axes(first, max(last - first, gap), min(1.0, max(0.1, *values) * 1.05))
    drawn = [_line(number, each, axes, gap) for number, each in enumerate(series)]
    names = _names(series, axes)
    return _svg(_HEIGHT, label, [*_grid(axes), *drawn, *names])


class _Axes(NamedTuple):
    first: float
    span: float
    top: float

    def x(self, at: float) -> float:
        return _LEFT + (at - self.first) / self.span * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return _HEIGHT - _BOTTOM - value / self.top * (_HEIGHT - _TOP - _BOTTOM)


def _line(number: int, series: Series, axes: _Axes, gap: float) -> str:
    share = _path(series.points, axes, gap)
    target = _path(series.targets, axes, gap)
    colour = f"c{number % _COLOURS}"
    title = f"<title>{escape(series.name)}</title>"
    return (
        f'<g class="{colour}">{title}<path class="target" d="{target}"/>'
        f'<path class="share" d="{share}"/></g>'
    )


def _path(points: Sequence[tuple[float, float]], axes: _Axes, gap: float) -> str:
    steps = []
    before = None
    for at, value in points:
        move = "M" if before is None or at - before > gap else "L"
        place = f"{axes.x(at):.1f},{axes.y(value):.1f}"
        # A point without neighbours is a line of no length, which round caps make a dot.
        steps.append(f"M{place}L{place}" if move == "M" else f"L{place}")
        before = at
    return "".join(steps)


def _grid(axes: _Axes) -> list[str]:
    drawn = []
    for number in range(5):
        value = axes.top * number / 4
        y = axes.y(value)
        drawn += [
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>',
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.0%}</text>',
        ]
        at = axes.first + axes.span * number / 4
        anchor = ("start", "middle", "middle", "middle", "end")[number]
        place = f'x="{axes.x(at):.1f}" y="{_HEIGHT - 8}" text-anchor="{anchor}"'
        drawn.append(f"<text {place}>{_clock(at, axes)}</text>")
    return drawn


def _clock(at: float, axes: _Axes) -> str:
    form = "%H:%M:%S" if axes.span < 86_400 else "%d %b %H:%M"
    return datetime.fromtimestamp(at, UTC).strftime(form)


def _names(series: Sequence[Series], axes: _Axes) -> list[str]:
    """At the ends of their lines, moved apart where they would cover each other."""
    ends = [(axes.y(each.points[-1][1]), n) for n, each in enumerate(series) if each.points]
    drawn = []
    below = _TOP - _LABEL + 4.0
    room = sorted(ends)
    for left, (y, number) in enumerate(room):
        lowest = _HEIGHT - _BOTTOM - (len(room) - 1 - left) * _LABEL
        below = min(max(y, below + _LABEL), max(lowest, below + _LABEL))
        name = escape(series[number].name)
        place = f'x="{_WIDTH - _RIGHT + 8}" y="{below + 4:.1f}"'
        drawn.append(f'<text class="name c{number % _COLOURS}" {place}>{name}</text>')
    return drawn


def bars(
    rows: Sequence[tuple[str, Sequence[float]]], parts: Sequence[str], label: str, unit: str
) -> str:
    """Return a bar a row, made of parts beside each other."""
    most = max((sum(values) for _, values in rows), default=0.0)
    if most <= 0:
        return ""
    left, width = 150, _WIDTH - 150 - 90
    drawn = []
    for number, (name, values) in enumerate(rows):
        y = _TOP + number * _ROW
        drawn.append(f'<text x="{left - 8}" y="{y + 12}" text-anchor="end">{escape(name)}</text>')
        x = float(left)
        for part, value in enumerate(values):
            length = value / most * width
            title = f"<title>{escape(parts[part])}: {value:.4g} {unit}</title>"
            drawn.append(
                f'<rect class="part{part}" x="{x:.1f}" y="{y}" width="{length:.1f}" height="15">'
                f"{title}</rect>"
            )
            x += length
        drawn.append(f'<text x="{x + 6:.1f}" y="{y + 12}">{sum(values):,.4g} {unit}</text>')
    return _svg(_TOP + len(rows) * _ROW + 4, label, drawn)


def _svg(height: int, label: str, drawn: Sequence[str]) -> str:
    inner = "\n".join(drawn)
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(label)}">\n{inner}\n'
        "</svg>"
    )
