"""Rows of text in columns."""

__all__ = ["aligned"]


def aligned(rows: list[list[str]]) -> list[str]:
    """Return rows as lines, in columns: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
