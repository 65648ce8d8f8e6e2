"""The commands: ``celery -A app fair <command>``, ``python -m celery_fair <command>``.

Celery loads this module for each of its own commands, so it imports click (which Celery has loaded
by then) and nothing else that takes time; a command's module is imported when the command is used.

What commands have in common::

    options.py     options of several commands, and how a command ends: JSON or text, exit status
    screen.py      text and tables on a terminal, as lines, or drawn in place (drawing.py, by rich)
    columns.py     rows in columns
    connecting.py  a broker that does not answer
    escaped.py     text of others on a terminal
    interrupt.py   Ctrl-C and its kin
    lazy.py        a group whose commands are imported late
"""

import click

from celery_fair.cli.lazy import LazyGroup

__all__ = ["fair"]

_COMMANDS = {
    "dashboard": "celery_fair.cli.dashboard:dashboard",
    "dead-letters": "celery_fair.cli.dead_letters.group:dead_letters",
    "demo": "celery_fair.cli.demo.command:demo",
    "doctor": "celery_fair.cli.doctor.command:doctor",
    "drop-key": "celery_fair.cli.keys.drop:drop_key",
    "explain": "celery_fair.cli.live.explain:explain",
    "key": "celery_fair.cli.keys.explain:key",
    "keys": "celery_fair.cli.keys.list:keys",
    "partitions": "celery_fair.cli.partitions.group:partitions",
    "pause": "celery_fair.cli.live.pause:pause",
    "pipeline": "celery_fair.cli.pipeline.group:pipeline",
    "resume": "celery_fair.cli.live.pause:resume",
    "seal": "celery_fair.cli.seal:seal",
    "set": "celery_fair.cli.live.set:set_options",
    "set-key": "celery_fair.cli.keys.set:set_key",
    "pause-key": "celery_fair.cli.keys.pause:pause_key",
    "resume-key": "celery_fair.cli.keys.pause:resume_key",
    "status": "celery_fair.cli.live.status:status",
    "top": "celery_fair.cli.live.top:top",
    "web": "celery_fair.web.command:web",
    "web-password": "celery_fair.web.passwords:web_password",
}


@click.command(cls=LazyGroup, where=_COMMANDS)
def fair() -> None:
    """Fair consumption: every backlogged queue gets its share of the worker."""
