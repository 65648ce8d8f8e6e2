"""Text that people write, and text for people.

Names of queues, tasks, keys and workers are chosen by others: `escaped`, they can do nothing to a
terminal.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from celery_fair.operate.errors import InvalidRequestError

_AGE = re.compile(r"(\d{1,9})([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


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


def figure(value: float) -> str:
    """Return a number in at most six characters or so."""
    if abs(value) < 10:
        return f"{value:.3g}"
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e5, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.4g}{unit}"
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:.4g}"


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    hours = seconds / 3600
    return f"{hours:.0f} h" if hours < 100 else f"{figure(hours / 24)} d"


def counted(count: int, one: str, more: str = "") -> str:
    """Return how many there are, such as ``1 key has`` and ``2 keys have``; more end in an s."""
    return f"{count} {one if count == 1 else more or one + 's'}"


def age(time: datetime, now: datetime) -> str:
    """Return how long ago a time was."""
    return duration(max(0.0, (now - time).total_seconds()))


def parsed_time(text: str) -> datetime:
    """Return the time that a text says, aware; without a zone it is UTC, and an age is from now.

    Raises:
        ValueError: it says none.
    """
    try:
        if match := _AGE.fullmatch(text):
            return datetime.now(UTC) - timedelta(seconds=int(match[1]) * _SECONDS[match[2]])
        time = datetime.fromisoformat(text)
        return time.replace(tzinfo=time.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError) as exc:
        raise ValueError(
            f"{text!r} is neither an age, such as 90s, 30m, 2h or 3d, nor an ISO time, such as"
            " 2026-05-31T14:00:00Z"
        ) from exc


def assignments(words: Sequence[str], such_as: str) -> dict[str, Any]:
    """Return options written ``name=value``, values as numbers, None (`none`) or text.

    Raises:
        InvalidRequestError: a word is written otherwise, or a name is there twice.
    """
    options: dict[str, Any] = {}
    for word in words:
        option, equals, value = word.partition("=")
        if not equals:
            raise InvalidRequestError(
                f"{word!r} is not option=value; write, for example, {such_as}"
            )
        if option in options:
            raise InvalidRequestError(f"{option!r} is given twice; give each option once")
        options[option] = _value(value)
    return options


def _value(text: str) -> Any:
    if text.lower() == "none":
        return None
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text
