"""``option=value``, as words of a command line; checked here, before any worker is told."""

from collections.abc import Sequence
from typing import Any

import click
from celery.exceptions import ImproperlyConfigured

from celery_fair.settings import parse_live_options

__all__ = ["parse_assignments"]


def parse_assignments(queue: str, words: Sequence[str]) -> dict[str, Any]:
    """Return the options as a worker is sent them: numbers, None, or text.

    Raises:
        click.UsageError: for anything that no worker would take.
    """
    options: dict[str, Any] = {}
    for word in words:
        option, equals, value = word.partition("=")
        if not equals:
            raise click.UsageError(
                f"{word!r} is not option=value; write, for example, quantum=40 or rate=10/s"
            )
        if option in options:
            raise click.UsageError(f"{option!r} is given twice; give each option once")
        options[option] = _value(value)
    try:
        parse_live_options(queue, options)
    except ImproperlyConfigured as exc:
        raise click.UsageError(str(exc)) from exc
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
