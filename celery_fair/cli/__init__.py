"""The commands: ``celery -A app fair <command>``, ``python -m celery_fair <command>``.

Celery loads this module for each of its own commands, so it imports click (which Celery has loaded
by then) and nothing else; a command's module is imported when the command is used.
"""

from importlib import import_module

import click

__all__ = ["fair"]

_COMMANDS = {
    "dead-letters": "celery_fair.cli.dead_letters.group:dead_letters",
    "demo": "celery_fair.cli.demo.command:demo",
    "doctor": "celery_fair.cli.doctor.command:doctor",
    "explain": "celery_fair.cli.live.status:explain",
    "pipeline": "celery_fair.cli.pipeline.group:pipeline",
    "pause": "celery_fair.cli.live.orders:pause",
    "resume": "celery_fair.cli.live.orders:resume",
    "set": "celery_fair.cli.live.orders:set_options",
    "status": "celery_fair.cli.live.status:status",
    "top": "celery_fair.cli.live.top:top",
}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


@click.command(cls=_LazyGroup)
def fair() -> None:
    """Fair consumption: every backlogged queue gets its share of the worker."""
