"""Rows of text in columns: whatever queues, tasks and keys are called, it harms no terminal."""

from collections.abc import Iterator

from celery_fair.operate.text import escaped, width

__all__ = ["aligned"]


def aligned(rows: list[list[str]]) -> list[str]:
    """Return rows as lines, escaped, in columns: the first to the left, the others to the right."""
    rows = [list(map(escaped, row)) for row in rows]
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(_cells(row, widths)).rstrip() for row in rows]


def _cells(row: list[str], widths: list[int]) -> Iterator[str]:
    for number, (cell, wide) in enumerate(zip(row, widths, strict=True)):
        blank = " " * (wide - width(cell))
        yield blank + cell if number else cell + blank
