"""``fair dead-letters``: its commands."""

import click

from celery_fair.cli.dead_letters.list import list_letters
from celery_fair.cli.dead_letters.replay_and_purge import purge_letters, replay_letters
from celery_fair.cli.dead_letters.show import show_letters

__all__ = ["dead_letters"]


@click.group("dead-letters")
def dead_letters() -> None:
    """See, replay and purge the messages that were not started.

    A letter is named by its task's id, or by its digest, which list shows for a message without
    one. Looking changes nothing: all letters stay, in their order. While one command looks at them
    on RabbitMQ, another sees none.

    \b
    Examples:
      celery -A shop fair dead-letters list --since 2h
      celery -A shop fair dead-letters show 6c1ff3b5-6a5c-4a2a-9e6c-0e5b8c2f7d10
      celery -A shop fair dead-letters replay --all --reason unknown-task
    """


for _command in (list_letters, show_letters, replay_letters, purge_letters):
    dead_letters.add_command(_command)
