"""Shares over time as an SVG: one line per queue on its dotted target, the published beside it.

Text and lines take their colours from the page's style sheet, so that they suit a light and a dark
background.
"""

import math
from collections.abc import Iterator
from html import escape

from celery_fair.cli.demo.shares import table
from celery_fair.cli.demo.shares.published import TABLES
from celery_fair.cli.demo.shares.shares import Result, timeline
from celery_fair.cli.demo.shares.workload import QUANTA, QUEUES

__all__ = ["chart"]

_PARTS = 25
_WIDTH, _HEIGHT = 760, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 560, 16, 352
_LABELS, _OURS, _THEIRS = _RIGHT + 10, 640, 720
_HUES = (200, 340)  # of the first queue and of the last


def chart(result: Result) -> str:
    """Return the SVG element of one run."""
    return "\n".join(_Chart(result).elements())


class _Chart:
    def __init__(self, result: Result) -> None:
        self._result = result
        self._parts = timeline(result.starts, _PARTS)
        self._end = self._parts[-1][0] or 1.0
        highest = max(max(shares.achieved) for _, shares in self._parts)
        self._ceiling = max(0.2, math.ceil(20 * highest) / 20)

    def elements(self) -> Iterator[str]:
        label = f"Shares of ten queues over time, {table.title(self._result.workload)}"
        yield f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(label)}">'
        yield from self._axes()
        yield self._warm_up()
        for number in range(len(QUEUES)):
            yield self._series(number)
        yield from self._slopes()
        yield "</svg>"

    def _x(self, seconds: float) -> float:
        return round(_LEFT + (_RIGHT - _LEFT) * seconds / self._end, 1)

    def _y(self, share: float) -> float:
        return round(_BOTTOM - (_BOTTOM - _TOP) * share / self._ceiling, 1)

    def _axes(self) -> Iterator[str]:
        for percent in range(0, round(100 * self._ceiling) + 1, 5):
            y = self._y(percent / 100)
            yield f'<line class="grid" x1="{_LEFT}" x2="{_RIGHT}" y1="{y}" y2="{y}"/>'
            yield _text(_LEFT - 8, y + 4, f"{percent} %", "end")
        for quarter in range(5):
            seconds = self._end * quarter / 4
            yield _text(self._x(seconds), _BOTTOM + 20, f"{seconds:.1f} s", "middle")
        yield _text((_LEFT + _RIGHT) / 2, _BOTTOM + 40, "time since the first start", "middle")

    def _warm_up(self) -> str:
        starts = self._result.starts
        width = self._x(starts[self._result.workload.warm_up][1] - starts[0][1]) - _LEFT
        return (
            f'<rect class="warm-up" x="{_LEFT}" y="{_TOP}" width="{width:.1f}"'
            f' height="{_BOTTOM - _TOP}"><title>left out: windows fill</title></rect>'
        )

    def _series(self, number: int) -> str:
        target = self._y(QUANTA[number] / sum(QUANTA))
        points = [(self._x(when), self._y(each.achieved[number])) for when, each in self._parts]
        points.insert(0, (_LEFT, points[0][1]))  # the first part's share holds from its begin
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        return (
            f"<g{_colour(number)}><title>{QUEUES[number]}, quantum {QUANTA[number]}</title>"
            f'<line class="target" x1="{_LEFT}" x2="{_RIGHT}" y1="{target}" y2="{target}"/>'
            f'<polyline class="share" points="{path}"/>'
            f"{_text(_LABELS, target + 4, QUEUES[number])}</g>"
        )

    def _slopes(self) -> Iterator[str]:
        """Lines from each queue's share here to the published one: level if they are alike."""
        published = TABLES.get(self._result.workload.work)
        if published is None:
            return
        pairs = zip(self._result.shares.achieved, published.shares.achieved, strict=True)
        for number, (here, there) in enumerate(pairs):
            yield (
                f'<g class="slope"{_colour(number)}><title>{QUEUES[number]}: {100 * here:.2f} %'
                f" here, {100 * there:.2f} % published</title>"
                f'<line x1="{_OURS}" y1="{self._y(here)}" x2="{_THEIRS}" y2="{self._y(there)}"/>'
                f'<circle cx="{_OURS}" cy="{self._y(here)}" r="3"/>'
                f'<circle cx="{_THEIRS}" cy="{self._y(there)}" r="3"/></g>'
            )
        yield _text(_OURS, _BOTTOM + 20, "here", "middle")
        yield _text(_THEIRS, _BOTTOM + 20, "published", "middle")


def _colour(number: int) -> str:
    low, high = _HUES
    return f' style="--hue:{low + (high - low) * number // (len(QUEUES) - 1)}"'


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'
