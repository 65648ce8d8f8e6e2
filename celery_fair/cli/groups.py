"""Groups of commands, whose failures are told in one line; some import commands when used."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from celery_fair.operate.errors import InvalidRequestError, OperateError
from celery_fair.operate.text import escaped, escaped_lines

if TYPE_CHECKING:  # what it is besides; it has no types
    from click import Group as DYMGroup
else:
    from click_didyoumean import DYMGroup

TRACEBACK = "CELERY_FAIR_TRACEBACK"
"""The variable that has tracebacks shown, to whoever looks for a mistake of ours."""

_REFUSALS = {"AccessRefused", "NoPermissionError"}
"""What is raised where a broker's user has no right."""

_REFUSED = (
    "its user may not do that. `celery -A … fair doctor` says what rights are missing, and"
    " rabbitmqctl set_permissions, or Redis's ACL SETUSER, gives them"
)


class Group(DYMGroup):
    """Lists its commands in the order given; their options tell their defaults.

    A command that is mistyped is answered with those that are written alike.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, context_settings={"show_default": True}, **kwargs)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        with told_in_one_line():
            return super().invoke(ctx)


class LazyGroup(Group):
    """Imports its commands when they are used.

    Arguments:
        where: by its name, a command's module and attribute: ``package.module:attribute``.
    """

    def __init__(self, *args: Any, where: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._where = where

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._where)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._where:
            return None
        module, _, attribute = self._where[cmd_name].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


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
    if not _kinds(exc).isdisjoint(_REFUSALS):
        return f"the broker has refused it ({text}): {_REFUSED}"
    return f"{text} (with {TRACEBACK}=1 in the environment it says where)"


def _kinds(exc: Exception) -> set[str]:
    """Return what it is, by name: neither Celery nor the brokers' clients need be there."""
    return {kind.__name__ for kind in type(exc).__mro__}
