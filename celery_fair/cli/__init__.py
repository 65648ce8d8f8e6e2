"""The commands: ``celery -A app fair <command>``, ``python -m celery_fair <command>``.

Celery loads this module for each of its own commands, so it imports click (which Celery has loaded
by then) and nothing else that takes time; a command's module is imported when the command is used.

What commands have in common::

    options.py    options of several commands, and how a command ends: JSON or text, exit status
    asking.py     those of commands that ask workers, and what these answer
    screen.py     text and tables on a terminal, as lines, or drawn in place (drawing.py, by rich)
    columns.py    rows in columns
    rows.py       queues' figures in such tables; trend.py, what has become of them
    interrupt.py  Ctrl-C and its kin
    failure.py    what went wrong, in one line
    lazy.py       a group whose commands are imported late
"""

import click

from celery_fair.cli.lazy import LazyGroup

__all__ = ["fair"]

_COMMANDS = {
    "dashboard": "celery_fair.cli.dashboard:dashboard",
    "dead-letters": "celery_fair.cli.dead_letters:dead_letters",
    "demo": "celery_fair.cli.demo.command:demo",
    "doctor": "celery_fair.cli.doctor:doctor",
    "explain": "celery_fair.cli.queues:explain",
    "keys": "celery_fair.cli.keys:keys",
    "partitions": "celery_fair.cli.partitions:partitions",
    "pause": "celery_fair.cli.queues:pause",
    "pipeline": "celery_fair.cli.pipeline.group:pipeline",
    "resume": "celery_fair.cli.queues:resume",
    "set": "celery_fair.cli.queues:set_options",
    "status": "celery_fair.cli.status:status",
    "top": "celery_fair.cli.top:top",
    "web": "celery_fair.web.command:web",
    "web-password": "celery_fair.web.password_command:web_password",
}


@click.command(cls=LazyGroup, where=_COMMANDS)
def fair() -> None:
    """Fair consumption: every backlogged queue gets its share of the worker."""
