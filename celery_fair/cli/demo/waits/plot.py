"""The waits of each run as pins over time, on the same axes.

On a narrow screen the style sheet makes the text of the plots larger.
"""

import math
from collections.abc import Iterator, Sequence

from celery_fair.cli.demo.waits.run import Run
from celery_fair.html_page.plot import Plot, svg, text

__all__ = ["plots"]

_WIDTH, _HEIGHT = 600, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 584, 14, 180
_TICKS = _BOTTOM + 4, _BOTTOM + 12


def plots(runs: Sequence[Run]) -> list[str]:
    """Return the SVG element of each run."""
    plot = Plot(_LEFT, _RIGHT, _TOP, _BOTTOM, 0.0, runs[0].work.seconds, _ceiling(runs))
    return [
        svg(_WIDTH, _HEIGHT, f"Waits of password mails, {run.worker}", _drawn(run, plot))
        for run in runs
    ]


def _ceiling(runs: Sequence[Run]) -> float:
    """Return a round number of seconds, not less than the longest wait."""
    longest = max(max(run.mails.seconds) for run in runs)
    step: float = 10 ** math.floor(math.log10(longest))
    return next(step * n for n in (1, 2, 4, 6, 8, 10) if step * n >= longest)


def _drawn(run: Run, plot: Plot) -> Iterator[str]:
    for half in range(3):
        wait, time = plot.highest * half / 2, plot.last * half / 2
        yield plot.grid(wait, f"{wait:g} s")
        yield plot.tick(time, f"{time:g} s", 36, ("start", "middle", "end")[half])
    yield text((_LEFT + _RIGHT) / 2, _BOTTOM + 60, "time since the first mail", "middle")
    for each in run.newsletters.ended:
        if 0 <= each.started - run.begin <= plot.last:
            at = plot.x(each.started - run.begin)
            yield f'<line class="bulk" x1="{at}" x2="{at}" y1="{_TICKS[0]}" y2="{_TICKS[1]}"/>'
    for each in run.mails.ended:
        at, top = plot.x(each.published - run.begin), plot.y(each.seconds)
        yield (
            f'<g class="mail"><title>waited {each.seconds:.2f} s</title>'
            f'<line x1="{at}" x2="{at}" y1="{_BOTTOM}" y2="{top}"/>'
            f'<circle cx="{at}" cy="{top}" r="4"/></g>'
        )
    yield plot.level(run.mails.median, "median")
