"""``fair partitions create``."""

import click

from celery_fair.cli.partitions.access import settings_of, store_of

__all__ = ["create"]


@click.command("create")
@click.pass_context
def create(ctx: click.Context) -> None:
    """Make what the groups' store needs and does not have yet.

    That is a table in an SQL database, nodes in ZooKeeper, and nothing in Redis. Workers do this
    themselves where they are allowed to; where they are not, run this as somebody who is. What is
    already there stays as it is.

    \b
    Examples:
      celery -A shop fair partitions create

    Exit status: 0; 1 if the store cannot be reached.
    """
    with store_of(settings_of(ctx), "what fair_group_store needs cannot be made") as store:
        made = store.create()
    for name, missing in made.items():
        click.echo(f"{name}: {'made' if missing else 'is there'}")
    if not made:
        click.echo("nothing to do: a store of this kind needs nothing made beforehand")
