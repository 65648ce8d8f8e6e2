"""Rows of text as a table on a terminal. Needs rich."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

__all__ = ["drawn"]


def drawn(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> Table:
    """Return a table of such rows: the first column to the left, the others to the right."""
    table = Table(
        title=caption,
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        collapse_padding=True,
    )
    for number, head in enumerate(heads):
        table.add_column(head, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    return table
