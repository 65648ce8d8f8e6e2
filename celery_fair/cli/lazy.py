"""A group of commands, each of which is imported when it is used."""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

from celery_fair.cli.failure import told_in_one_line

__all__ = ["LazyGroup"]


class LazyGroup(click.Group):
    """Lists its commands in the order given; their options tell their defaults.

    A command that is mistyped is answered with those that are written alike.

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

    def invoke(self, ctx: click.Context) -> Any:
        with told_in_one_line():
            return super().invoke(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as exc:
            alike = get_close_matches(args[0], self._where, n=3, cutoff=0.5)
            if args[0] in self._where or not alike:
                raise
            meant = " or ".join(map(repr, alike))
            text = f"there is no command {args[0]!r}; did you mean {meant}?"
            raise click.UsageError(text, ctx) from exc
