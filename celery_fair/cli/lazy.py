"""A group of commands, each of which is imported when it is used."""

from collections.abc import Mapping
from importlib import import_module

import click

__all__ = ["LazyGroup"]


class LazyGroup(click.Group):
    """Lists its commands in the order given; their options tell their defaults.

    Arguments:
        where: by its name, a command's module and attribute: ``package.module:attribute``.
    """

    def __init__(self, *args: object, where: Mapping[str, str], **kwargs: object) -> None:
        settings = {"show_default": True}
        super().__init__(*args, context_settings=settings, **kwargs)  # type: ignore[arg-type]
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
