"""``fair dead-letters``: its commands, each imported when it is used."""

import click

from celery_fair.cli.lazy import LazyGroup

__all__ = ["dead_letters"]

_COMMANDS = {
    "count": "celery_fair.cli.dead_letters.count:count_letters",
    "list": "celery_fair.cli.dead_letters.list:list_letters",
    "show": "celery_fair.cli.dead_letters.show:show_letters",
    "replay": "celery_fair.cli.dead_letters.replay_and_purge:replay_letters",
    "purge": "celery_fair.cli.dead_letters.replay_and_purge:purge_letters",
}


@click.group("dead-letters", cls=LazyGroup, where=_COMMANDS)
def dead_letters() -> None:
    """Count, see, replay and purge the messages that were not started.

    A letter is named by its task's id, or by its digest, which list shows for a message without
    one. Looking changes nothing: all letters stay, in their order. While one command looks at them
    on RabbitMQ, another sees none.

    \b
    Examples:
      celery -A shop fair dead-letters count
      celery -A shop fair dead-letters list --since 2h
      celery -A shop fair dead-letters show 6c1ff3b5-6a5c-4a2a-9e6c-0e5b8c2f7d10
      celery -A shop fair dead-letters replay --all --reason unknown-task
    """
