"""One line of the report."""

from typing import NamedTuple

__all__ = ["LEVELS", "OK", "WEAK", "WRONG", "Finding", "ok", "weak", "wrong"]

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
