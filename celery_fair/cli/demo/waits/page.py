"""The HTML file: the two runs above each other, on the same axes. Nothing is loaded.

Text and lines take their colours from the page's style sheet, so that they suit a light and a dark
background; on a narrow screen it makes the text of the plots larger.
"""

import math
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files

from celery_fair import html_page
from celery_fair.cli.demo.waits import words
from celery_fair.cli.demo.waits.waits import Run
from celery_fair.cli.demo.worker import Setup

__all__ = ["page"]

_WIDTH, _HEIGHT = 600, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 584, 14, 180
_TICKS = _BOTTOM + 4, _BOTTOM + 12

_NOTE = (
    "Each pin is a password mail: where it stands on the axis it was published, and its height is"
    " how long it waited. The dashed line is the median. Each tick below the axis is the start of a"
    " newsletter: bulk work goes on all the time."
)


def page(setup: Setup, runs: Sequence[Run], good: bool) -> str:
    """Return the page for the runs of both workers."""
    heads, *rows = words.comparison(runs, width=0)
    seconds, ceiling = runs[0].scenario.seconds, _ceiling(runs)
    plots = [
        f"<h2>{escape(words.title(run.worker))}</h2>\n" + "\n".join(_plot(run, seconds, ceiling))
        for run in runs
    ]
    return html_page.page(
        title="celery fair demo: how long a password mail waits",
        introduction=words.introduction(setup, seconds),
        style=files("celery_fair.cli.demo.waits").joinpath("page.css").read_text(encoding="utf-8"),
        body="\n".join(
            [
                html_page.verdict("good" if good else "bad", words.sentence(runs)),
                *plots,
                f'<p class="note">{escape(_NOTE)}</p>',
                html_page.table(heads, rows),
                f'<p class="note">{escape(words.reason(setup))}</p>',
            ]
        ),
    )


def _ceiling(runs: Sequence[Run]) -> float:
    """Return a round number of seconds, not less than the longest wait."""
    longest = max(max(run.mails.seconds) for run in runs)
    step: float = 10 ** math.floor(math.log10(longest))
    return next(step * n for n in (1, 2, 4, 6, 8, 10) if step * n >= longest)


def _plot(run: Run, seconds: float, ceiling: float) -> Iterator[str]:
    def x(moment: float) -> float:
        return round(_LEFT + (_RIGHT - _LEFT) * moment / seconds, 1)

    def y(wait: float) -> float:
        return round(_BOTTOM - (_BOTTOM - _TOP) * wait / ceiling, 1)

    label = f"Waits of password mails, {run.worker}"
    yield f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(label)}">'
    for half in range(3):
        wait = ceiling * half / 2
        yield f'<line class="grid" x1="{_LEFT}" x2="{_RIGHT}" y1="{y(wait)}" y2="{y(wait)}"/>'
        yield _text(_LEFT - 8, y(wait) + 5, f"{wait:g} s", "end")
    for half in range(3):
        moment = seconds * half / 2
        yield _text(x(moment), _BOTTOM + 36, f"{moment:g} s", ("start", "middle", "end")[half])
    yield _text((_LEFT + _RIGHT) / 2, _BOTTOM + 60, "time since the first mail", "middle")
    for each in run.newsletters.ended:
        if 0 <= each.started - run.begin <= seconds:
            at = x(each.started - run.begin)
            yield f'<line class="bulk" x1="{at}" x2="{at}" y1="{_TICKS[0]}" y2="{_TICKS[1]}"/>'
    for each in run.mails.ended:
        at, top = x(each.published - run.begin), y(each.seconds)
        yield (
            f'<g class="mail"><title>waited {each.seconds:.2f} s</title>'
            f'<line x1="{at}" x2="{at}" y1="{_BOTTOM}" y2="{top}"/>'
            f'<circle cx="{at}" cy="{top}" r="4"/></g>'
        )
    median = y(run.mails.median)
    yield f'<line class="median" x1="{_LEFT}" x2="{_RIGHT}" y1="{median}" y2="{median}"/>'
    yield "</svg>"


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'
