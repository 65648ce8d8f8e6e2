"""Pictures as SVG text: what stands where, by value. Colours are the page's style sheet's.

Text and lines take their colours from there, so that they suit a light and a dark background.
"""

from collections.abc import Iterable
from html import escape
from typing import NamedTuple


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
