"""What went wrong, in one line: of a command of ours nobody reads a traceback."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import click

from celery_fair.operate.errors import InvalidRequestError, OperateError
from celery_fair.operate.text import escaped, escaped_lines

__all__ = ["TRACEBACK", "told_in_one_line"]

TRACEBACK = "CELERY_FAIR_TRACEBACK"
"""The variable that has tracebacks shown, to whoever looks for a mistake of ours."""

_REFUSED = (
    "its user may not do that. `celery -A … fair doctor` says what rights are missing, and"
    " rabbitmqctl set_permissions, or Redis's ACL SETUSER, gives them"
)


@contextmanager
def told_in_one_line() -> Iterator[None]:
    """Have whatever is raised end the command with one line, and exit status 1.

    What was asked for and cannot be meant ends it with 2. Click's own exceptions, but for control
    characters in them, and the end of standard output's reader are left as they are.
    """
    try:
        yield
    except click.ClickException as exc:
        vars(exc)["message"] = escaped_lines(exc.message)  # what others have said is in it
        raise
    except (click.exceptions.Exit, click.Abort, BrokenPipeError):
        raise
    except InvalidRequestError as exc:
        raise click.UsageError(escaped_lines(str(exc))) from exc
    except OperateError as exc:
        raise click.ClickException(escaped_lines(str(exc))) from exc
    except Exception as exc:
        if "ImproperlyConfigured" in _kinds(exc):
            raise click.ClickException(escaped_lines(str(exc))) from exc
        if os.environ.get(TRACEBACK):
            raise
        raise click.ClickException(_line(exc)) from exc


def _line(exc: Exception) -> str:
    said = escaped(" ".join(str(exc).split()))
    text = f"{type(exc).__name__}: {said}" if said else type(exc).__name__
    if _is_refusal(exc):
        return f"the broker has refused it ({text}): {_REFUSED}"
    return f"{text} (with {TRACEBACK}=1 in the environment it says where)"


def _is_refusal(exc: Exception) -> bool:
    """Whether a broker's user has no right."""
    return not _kinds(exc).isdisjoint({"AccessRefused", "NoPermissionError"})


def _kinds(exc: Exception) -> set[str]:
    """Return what it is, by name: neither Celery nor the brokers' clients need be there."""
    return {kind.__name__ for kind in type(exc).__mro__}
