"""The page: the waits of each run as pins over time, on the same axes.

On a narrow screen the style sheet makes the text of the plots larger.
"""

import math
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files

from celery_fair import html_page
from celery_fair.cli.demo.scenario import Run
from celery_fair.cli.screen import Rows
from celery_fair.html_page.plot import Plot, svg, text

_PLOT_NOTE = (
    "Each pin is a password mail: where it stands on the axis it was published, and its height is"
    " how long it waited. The dashed line is the median. Each tick below the axis is the start of a"
    " newsletter: bulk work goes on all the time."
)

_WIDTH, _HEIGHT = 600, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 584, 14, 180
_TICKS = _BOTTOM + 4, _BOTTOM + 12


def page(
    introduction: str, verdict: tuple[bool, str], runs: Sequence[Run], figures: Rows, note: str
) -> str:
    """Return the HTML file: everything is in it, nothing is loaded."""
    parts = [html_page.verdict(*verdict)]
    plot = Plot(_LEFT, _RIGHT, _TOP, _BOTTOM, 0.0, runs[0].scenario.seconds, _ceiling(runs))
    for run in runs:
        label = f"Waits of password mails, {run.worker}"
        parts += [f"<h2>{escape(run.title)}</h2>", svg(_WIDTH, _HEIGHT, label, _drawn(run, plot))]
    parts += [
        f'<p class="note">{escape(_PLOT_NOTE)}</p>',
        html_page.table(figures[0], figures[1:]),
        f'<p class="note">{escape(note)}</p>',
    ]
    return html_page.page(
        title="celery fair demo: how long a password mail waits",
        introduction=introduction,
        style=files("celery_fair.cli.demo").joinpath("page.css").read_text(encoding="utf-8"),
        body="\n".join(parts),
    )


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
