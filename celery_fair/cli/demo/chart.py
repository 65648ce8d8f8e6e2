"""Shares over time as an SVG: one line per queue on its dotted target, the published beside it.

Text and lines take their colours from the page's style sheet, so that they suit a light and a dark
background.
"""

from html import escape

from celery_fair.cli.demo.published import TABLES
from celery_fair.cli.demo.run import Result
from celery_fair.cli.demo.shares import Shares, timeline
from celery_fair.cli.demo.workload import QUANTA, QUEUES

__all__ = ["chart"]

_PARTS = 25
_WIDTH, _HEIGHT = 760, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 560, 16, 352
_LABELS, _OURS, _THEIRS = _RIGHT + 10, 640, 720
_CEILING = 0.2
_HUES = (200, 340)  # of the first queue and of the last


def chart(result: Result) -> str:
    """Return the SVG element of one run."""
    parts = timeline(result.starts, _PARTS)
    end = parts[-1][0] or 1.0
    lines = [_series(number, parts, end) for number in range(len(QUEUES))]
    return "\n".join(
        [
            f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{_label(result)}">',
            *_axes(end),
            _warm_up(result, end),
            *lines,
            *_slopes(result),
            "</svg>",
        ]
    )


def _label(result: Result) -> str:
    return escape(f"Shares of ten queues over time at {result.workload.work} µs of work per task")


def _x(seconds: float, end: float) -> float:
    return round(_LEFT + (_RIGHT - _LEFT) * seconds / end, 1)


def _y(share: float) -> float:
    return round(_BOTTOM - (_BOTTOM - _TOP) * min(share, _CEILING) / _CEILING, 1)


def _text(x: float, y: float, text: str, anchor: str = "start", extra: str = "") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{extra}>{escape(text)}</text>'


def _axes(end: float) -> list[str]:
    percents = range(0, round(100 * _CEILING) + 1, 5)
    return [
        *(
            f'<line class="grid" x1="{_LEFT}" x2="{_RIGHT}" y1="{_y(p / 100)}" y2="{_y(p / 100)}"/>'
            + _text(_LEFT - 8, _y(p / 100) + 4, f"{p} %", "end")
            for p in percents
        ),
        *(
            _text(_x(end * quarter / 4, end), _BOTTOM + 20, f"{end * quarter / 4:.1f} s", "middle")
            for quarter in range(5)
        ),
        _text((_LEFT + _RIGHT) / 2, _BOTTOM + 40, "time since the first start", "middle"),
    ]


def _warm_up(result: Result, end: float) -> str:
    first, last = result.starts[0][1], result.starts[result.workload.warm_up][1]
    width = _x(last - first, end) - _LEFT
    return (
        f'<rect class="warm-up" x="{_LEFT}" y="{_TOP}" width="{max(width, 0):.1f}"'
        f' height="{_BOTTOM - _TOP}"><title>left out: windows fill</title></rect>'
    )


def _colour(number: int) -> str:
    low, high = _HUES
    return f' style="--hue:{low + (high - low) * number // (len(QUEUES) - 1)}"'


def _series(number: int, parts: list[tuple[float, Shares]], end: float) -> str:
    target = _y(parts[0][1].targets[number])
    points = [(_x(when, end), _y(shares.achieved[number])) for when, shares in parts]
    points.insert(0, (float(_LEFT), points[0][1]))  # the first part's share holds from its begin
    path = " ".join(f"{x},{y}" for x, y in points)
    tip = f"{QUEUES[number]}, quantum {QUANTA[number]}"
    return (
        f"<g{_colour(number)}><title>{escape(tip)}</title>"
        f'<line class="target" x1="{_LEFT}" x2="{_RIGHT}" y1="{target}" y2="{target}"/>'
        f'<polyline class="share" points="{path}"/>'
        + _text(_LABELS, target + 4, QUEUES[number])
        + "</g>"
    )


def _slopes(result: Result) -> list[str]:
    """Lines from each queue's share here to the published one: level if they are alike."""
    table = TABLES.get(result.workload.work)
    if table is None:
        return []
    pairs = zip(result.shares.achieved, table.shares.achieved, strict=True)
    return [
        *(
            f'<g class="slope"{_colour(number)}><title>{QUEUES[number]}: {100 * here:.2f} % here,'
            f" {100 * there:.2f} % published</title>"
            f'<line x1="{_OURS}" y1="{_y(here)}" x2="{_THEIRS}" y2="{_y(there)}"/>'
            f'<circle cx="{_OURS}" cy="{_y(here)}" r="3"/>'
            f'<circle cx="{_THEIRS}" cy="{_y(there)}" r="3"/></g>'
            for number, (here, there) in enumerate(pairs)
        ),
        _text(_OURS, _BOTTOM + 20, "here", "middle"),
        _text(_THEIRS, _BOTTOM + 20, "published", "middle"),
    ]
