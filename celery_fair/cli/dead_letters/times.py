"""A time or an age, as a word of a command line."""

from datetime import datetime

import click

from celery_fair.operate.text import parsed_time

__all__ = ["time_or_age"]


def time_or_age(ctx: click.Context, param: click.Parameter, value: str | None) -> datetime | None:
    """Return an option's value as an aware time; without a zone it is UTC, and an age is from now.

    Raises:
        click.BadParameter: for anything else.
    """
    try:
        return None if value is None else parsed_time(value)
    except ValueError as exc:
        raise click.BadParameter(str(exc), ctx, param) from exc
