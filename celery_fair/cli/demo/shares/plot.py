"""Shares over time: one line per queue on its dotted target, the published shares beside it."""

import math
from collections.abc import Iterator

from celery_fair.cli.demo.shares.published import TABLES
from celery_fair.cli.demo.shares.run import Run, timeline
from celery_fair.cli.demo.shares.workload import QUANTA, QUEUES, TARGETS
from celery_fair.html_page.plot import Plot, svg, text

__all__ = ["plot"]

_PARTS = 25
_WIDTH, _HEIGHT = 760, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 560, 16, 352
_LABELS, _OURS, _THEIRS = _RIGHT + 10, 640, 720
_HUES = (200, 340)  # of the first queue and of the last


def plot(run: Run, title: str) -> str:
    """Return the SVG element of one run."""
    label = f"Shares of ten queues over time, {title}"
    return svg(_WIDTH, _HEIGHT, label, _Shares(run).elements())


class _Shares:
    def __init__(self, run: Run) -> None:
        self._run = run
        self._parts = timeline(run.starts, _PARTS)
        highest = max(max(shares.achieved) for _, shares in self._parts)
        ceiling = max(0.2, math.ceil(20 * highest) / 20)
        end = self._parts[-1][0] or 1.0
        self._plot = Plot(_LEFT, _RIGHT, _TOP, _BOTTOM, 0.0, end, ceiling)

    def elements(self) -> Iterator[str]:
        yield from self._axes()
        yield self._warm_up()
        for number in range(len(QUEUES)):
            yield self._series(number)
        yield from self._slopes()

    def _axes(self) -> Iterator[str]:
        for percent in range(0, round(100 * self._plot.highest) + 1, 5):
            yield self._plot.grid(percent / 100, f"{percent} %")
        for quarter in range(5):
            seconds = self._plot.last * quarter / 4
            yield self._plot.tick(seconds, f"{seconds:.1f} s", 20)
        yield text((_LEFT + _RIGHT) / 2, _BOTTOM + 40, "time since the first start", "middle")

    def _warm_up(self) -> str:
        starts = self._run.starts
        width = self._plot.x(starts[self._run.work.warm_up][1] - starts[0][1]) - _LEFT
        return (
            f'<rect class="warm-up" x="{_LEFT}" y="{_TOP}" width="{width:.1f}"'
            f' height="{_BOTTOM - _TOP}"><title>left out: windows fill</title></rect>'
        )

    def _series(self, number: int) -> str:
        plot, target = self._plot, TARGETS[number]
        points = [(plot.x(when), plot.y(each.achieved[number])) for when, each in self._parts]
        points.insert(0, (_LEFT, points[0][1]))  # the first part's share holds from its begin
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        return (
            f"<g{_colour(number)}><title>{QUEUES[number]}, quantum {QUANTA[number]}</title>"
            f"{plot.level(target, 'target')}"
            f'<polyline class="share" points="{path}"/>'
            f"{text(_LABELS, plot.y(target) + 4, QUEUES[number])}</g>"
        )

    def _slopes(self) -> Iterator[str]:
        """Lines from each queue's share here to the published one: level if they are alike."""
        published = TABLES.get(self._run.work.work)
        if published is None:
            return
        pairs = zip(self._run.shares.achieved, published.shares.achieved, strict=True)
        for number, (here, there) in enumerate(pairs):
            ours, theirs = self._plot.y(here), self._plot.y(there)
            yield (
                f'<g class="slope"{_colour(number)}><title>{QUEUES[number]}: {100 * here:.2f} %'
                f" here, {100 * there:.2f} % published</title>"
                f'<line x1="{_OURS}" y1="{ours}" x2="{_THEIRS}" y2="{theirs}"/>'
                f'<circle cx="{_OURS}" cy="{ours}" r="3"/>'
                f'<circle cx="{_THEIRS}" cy="{theirs}" r="3"/></g>'
            )
        yield text(_OURS, _BOTTOM + 20, "here", "middle")
        yield text(_THEIRS, _BOTTOM + 20, "published", "middle")


def _colour(number: int) -> str:
    low, high = _HUES
    return f' style="--hue:{low + (high - low) * number // (len(QUEUES) - 1)}"'
