"""Groups of commands; of some each command is imported when it is used."""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from celery_fair.cli.failure import told_in_one_line

if TYPE_CHECKING:  # what it is besides; it has no types
    from click import Group as DYMGroup
else:
    from click_didyoumean import DYMGroup

__all__ = ["Group", "LazyGroup"]


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
