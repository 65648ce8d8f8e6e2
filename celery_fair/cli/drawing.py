"""Rows of text as a table on a terminal. Needs rich."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

__all__ = ["drawn"]


def drawn(
    caption: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str | Text]],
    tight: bool = False,
) -> Table:
    """Return a table of such rows: the first column to the left, the others to the right.

    Arguments:
        tight: save what room can be saved. The first column gives way before the others.
    """
    table = Table(
        title=caption,
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        collapse_padding=True,
        padding=(0, 0 if tight else 1),
        show_edge=not tight,
    )
    for number, head in enumerate(heads):
        table.add_column(
            head,
            justify="right" if number else "left",
            overflow="ellipsis" if number else "fold",
            no_wrap=bool(number),
        )
    for row in rows:
        table.add_row(*row)
    return table
