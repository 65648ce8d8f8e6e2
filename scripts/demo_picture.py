"""Make the picture of the documentation's first page anew: run the demo, and draw its waits.

    python scripts/demo_picture.py --broker amqp://guest:guest@localhost:5672// --pool prefork

All arguments are the demo's. The waits of each run are pins over time, on the same axes: where a
pin stands a password mail was published, and its height is how long it waited. The dashed line is
the median. Each tick below the axis is the start of a newsletter.
"""

import json
import math
import subprocess
import sys
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

PICTURE = Path(__file__).parents[1] / "docs" / "demo-picture.html"

_WIDTH, _HEIGHT = 600, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 584, 14, 180
_TICKS = _BOTTOM + 4, _BOTTOM + 12


class Plot(NamedTuple):
    """A rectangle in a picture, with an axis along its lower and one along its left edge.

    Attributes:
        left, right, top, bottom: its edges in the picture.
        first, last: what the horizontal axis begins and ends with.
        highest: what the vertical axis ends with; it begins with 0.
    """

    left: float
    right: float
    top: float
    bottom: float
    first: float
    last: float
    highest: float

    def x(self, at: float) -> float:
        """Return where a value of the horizontal axis is."""
        part = (at - self.first) / (self.last - self.first)
        return round(self.left + part * (self.right - self.left), 1)

    def y(self, value: float) -> float:
        """Return where a value of the vertical axis is."""
        return round(self.bottom - value / self.highest * (self.bottom - self.top), 1)

    def level(self, value: float, kind: str) -> str:
        """Return a line of a class across the plot."""
        y = self.y(value)
        return f'<line class="{kind}" x1="{self.left}" x2="{self.right}" y1="{y}" y2="{y}"/>'

    def grid(self, value: float, label: str) -> str:
        """Return a line of the grid, with its label."""
        return self.level(value, "grid") + text(self.left - 8, self.y(value) + 4, label, "end")

    def tick(self, at: float, label: str, below: float, anchor: str = "middle") -> str:
        """Return a label of the horizontal axis, so far below it."""
        return text(self.x(at), self.bottom + below, label, anchor)


def text(x: float, y: float, words: str, anchor: str = "start", kind: str = "") -> str:
    """Return words at a place, perhaps of a class."""
    of_class = f' class="{kind}"' if kind else ""
    return f'<text{of_class} x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(words)}</text>'


def svg(width: float, height: float, label: str, drawn: Iterable[str]) -> str:
    """Return the picture; `label` says what it shows to those who do not see it."""
    inner = "\n".join(drawn)
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">\n{inner}\n'
        "</svg>"
    )


def picture(report: dict[str, Any]) -> str:
    """Return a figure: a run's name, its plot, the other's, and the sentence of both.

    Arguments:
        report: what the demo has printed with ``--json``.
    """
    waits = [_wait(mail) for run in report["runs"] for mail in run["mails"]["messages"]]
    plot = Plot(_LEFT, _RIGHT, _TOP, _BOTTOM, 0.0, report["seconds"], _ceiling(max(waits)))
    runs = []
    for run in report["runs"]:
        label = f"Waits of password mails, {run['worker']}"
        title = escape(run["worker"].capitalize())
        runs.append(f"<p>{title}</p>\n{svg(_WIDTH, _HEIGHT, label, _drawn(run, plot))}")
    caption = f"<figcaption>{escape(report['sentence'])}</figcaption>"
    return "\n".join(['<figure class="demo">', *runs, caption, "</figure>", ""])


def _wait(message: dict[str, float]) -> float:
    return message["started"] - message["published"]


def _ceiling(longest: float) -> float:
    """Return a round number of seconds, not less than the longest wait."""
    step: float = 10 ** math.floor(math.log10(longest))
    return next(step * n for n in (1, 2, 4, 6, 8, 10) if step * n >= longest)


def _drawn(run: dict[str, Any], plot: Plot) -> Iterator[str]:
    for half in range(3):
        wait, time = plot.highest * half / 2, plot.last * half / 2
        yield plot.grid(wait, f"{wait:g} s")
        yield plot.tick(time, f"{time:g} s", 36, ("start", "middle", "end")[half])
    yield text((_LEFT + _RIGHT) / 2, _BOTTOM + 60, "time since the first mail", "middle")
    for each in run["newsletters"]["messages"]:
        if 0 <= each["started"] <= plot.last:
            at = plot.x(each["started"])
            yield f'<line class="bulk" x1="{at}" x2="{at}" y1="{_TICKS[0]}" y2="{_TICKS[1]}"/>'
    for each in run["mails"]["messages"]:
        at, top = plot.x(each["published"]), plot.y(_wait(each))
        yield (
            f'<g class="mail"><title>waited {_wait(each):.2f} s</title>'
            f'<line x1="{at}" x2="{at}" y1="{_BOTTOM}" y2="{top}"/>'
            f'<circle cx="{at}" cy="{top}" r="4"/></g>'
        )
    yield plot.level(run["mails"]["median"], "median")


def main() -> None:
    command = [sys.executable, "-m", "celery", "fair", "demo", *sys.argv[1:], "--json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    PICTURE.write_text(picture(json.loads(done.stdout)))


if __name__ == "__main__":
    main()
