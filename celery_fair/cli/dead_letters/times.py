"""A time or an age, as a word of a command line."""

import re
from datetime import UTC, datetime, timedelta

import click

__all__ = ["age", "parsed_time", "time_or_age"]

_AGE = re.compile(r"(\d{1,9})([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def time_or_age(ctx: click.Context, param: click.Parameter, value: str | None) -> datetime | None:
    """Return an option's value as an aware time; without a zone it is UTC, and an age is from now.

    Raises:
        click.BadParameter: for anything else.
    """
    try:
        return None if value is None else parsed_time(value)
    except (ValueError, OverflowError) as exc:
        raise click.BadParameter(
            f"{value!r} is neither an age, such as 90s, 30m, 2h or 3d, nor an ISO time, such as"
            " 2026-05-31T14:00:00Z",
            ctx,
            param,
        ) from exc


def age(time: datetime, now: datetime) -> str:
    """Return how long ago a time was, in the largest unit that it has two of."""
    seconds = max(0, int((now - time).total_seconds()))
    for unit in ("d", "h", "m"):
        if seconds >= 2 * _SECONDS[unit]:
            return f"{seconds // _SECONDS[unit]}{unit}"
    return f"{seconds}s"


def parsed_time(text: str) -> datetime:
    """Return the time that a text says, aware; an age is from now.

    Raises:
        ValueError, OverflowError: it says none.
    """
    if match := _AGE.fullmatch(text):
        return datetime.now(UTC) - timedelta(seconds=int(match[1]) * _SECONDS[match[2]])
    time = datetime.fromisoformat(text)
    return time.replace(tzinfo=time.tzinfo or UTC).astimezone(UTC)
