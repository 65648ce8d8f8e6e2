"""Text of others, shown so that it cannot do anything to a terminal."""

from unicodedata import category, east_asian_width

__all__ = ["escaped", "escaped_lines", "shortened", "width"]


def escaped(text: str) -> str:
    """Return text with whatever is not printable written as Python would, such as ``\\x1b``."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def escaped_lines(text: str) -> str:
    """Return text, escaped but for the ends of its lines."""
    return "\n".join(map(escaped, text.split("\n")))


def width(text: str) -> int:
    """Return how many columns of a terminal a text takes (Unicode Standard Annex 11)."""
    if text.isascii():
        return len(text)
    return sum(_columns(each) for each in text)


def _columns(each: str) -> int:
    if category(each) in ("Mn", "Me"):  # it is above or below the one before
        return 0
    return 2 if east_asian_width(each) in ("W", "F") else 1


def shortened(text: str, width: int) -> str:
    """Return text, escaped, with an ellipsis at its end if it is wider than that."""
    shown = escaped(text[: width + 1])
    return shown if len(shown) <= width else f"{shown[: width - 1]}…"
