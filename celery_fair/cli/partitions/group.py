"""``fair partitions``: its commands, each imported when it is used."""

import click

from celery_fair.cli.lazy import LazyGroup

__all__ = ["partitions"]

_COMMANDS = {
    "add": "celery_fair.cli.partitions.add_and_remove:add",
    "create": "celery_fair.cli.partitions.create:create",
    "rebalance": "celery_fair.cli.partitions.add_and_remove:rebalance",
    "remove": "celery_fair.cli.partitions.add_and_remove:remove",
    "status": "celery_fair.cli.partitions.status:status",
}


@click.group("partitions", cls=LazyGroup, where=_COMMANDS)
def partitions() -> None:
    """See which worker owns which partition, and change that.

    \b
    Examples:
      celery -A shop fair partitions status
      celery -A shop fair partitions remove customers.3
      celery -A shop fair partitions rebalance
    """
