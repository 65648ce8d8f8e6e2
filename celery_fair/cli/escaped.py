"""Text of others, shown so that it cannot do anything to a terminal."""

__all__ = ["escaped", "escaped_lines", "shortened"]


def escaped(text: str) -> str:
    """Return text with whatever is not printable written as Python would, such as ``\\x1b``."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def escaped_lines(text: str) -> str:
    """Return text, escaped but for the ends of its lines."""
    return "\n".join(map(escaped, text.split("\n")))


def shortened(text: str, width: int) -> str:
    """Return text, escaped, with an ellipsis at its end if it is wider than that."""
    shown = escaped(text[: width + 1])
    return shown if len(shown) <= width else f"{shown[: width - 1]}…"
