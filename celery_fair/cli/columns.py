"""Rows of text in columns: whatever queues, tasks and keys are called, it harms no terminal."""

from celery_fair.cli.escaped import escaped

__all__ = ["aligned"]


def aligned(rows: list[list[str]]) -> list[str]:
    """Return rows as lines, escaped, in columns: the first to the left, the others to the right."""
    rows = [list(map(escaped, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
