"""The commands: ``celery -A app fair <command>``, ``python -m celery_fair <command>``.

Celery loads this module for each of its own commands, so it imports click (which Celery has loaded
by then) and nothing else that takes time; a command's module is imported when the command is used.
What a command does is in `celery_fair.operate` or `celery_fair.pipeline`; here is how it is called,
and how its result is shown. What commands have in common::

    options.py    options of several commands, and how a command ends: JSON or text, exit status
    rows.py       queues' figures as tables, also such that are drawn again in place
    interrupt.py  Ctrl-C and its kin
    groups.py     groups of commands; what went wrong, in one line
"""

import click

from celery_fair.cli.groups import LazyGroup

__all__ = ["fair"]

_COMMANDS = {
    "status": "celery_fair.cli.queues:status",
    "top": "celery_fair.cli.top:top",
    "explain": "celery_fair.cli.queues:explain",
    "set": "celery_fair.cli.queues:set_options",
    "pause": "celery_fair.cli.queues:pause",
    "resume": "celery_fair.cli.queues:resume",
    "keys": "celery_fair.cli.key_messages:keys_group",
    "dead-letters": "celery_fair.cli.dead_letters:dead_letters",
    "partitions": "celery_fair.cli.partitions:partitions",
    "doctor": "celery_fair.cli.doctor:doctor",
    "web": "celery_fair.cli.web:web",
    "pipeline": "celery_fair.cli.pipeline.group:pipeline",
    "demo": "celery_fair.cli.demo.command:demo",
}


@click.command(cls=LazyGroup, where=_COMMANDS)
def fair() -> None:
    """Fair consumption: every backlogged queue gets its share of the worker."""
