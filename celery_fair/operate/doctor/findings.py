"""One line of the report."""

from collections.abc import Sequence
from typing import NamedTuple

OK, WEAK, WRONG = "ok", "weak", "wrong"
LEVELS = (OK, WEAK, WRONG)


class Finding(NamedTuple):
    """What was found, and how it is mended."""

    level: str  # one of LEVELS
    topic: str
    text: str
    mend: str = ""


def ok(topic: str, text: str) -> Finding:
    """It is as it should be."""
    return Finding(OK, topic, text)


def weak(topic: str, text: str, mend: str) -> Finding:
    """It works, and promises less than it could."""
    return Finding(WEAK, topic, text, mend)


def wrong(topic: str, text: str, mend: str) -> Finding:
    """It does not work, or does not do what was asked for."""
    return Finding(WRONG, topic, text, mend)


def listed(names: Sequence[str], most: int = 8) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
