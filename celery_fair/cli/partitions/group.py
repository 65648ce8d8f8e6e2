"""``fair partitions``: who owns what, and where that is kept."""

import json
from collections.abc import Iterable
from typing import Any

import click

from celery_fair.cli.columns import aligned
from celery_fair.cli.connecting import trouble_with
from celery_fair.cli.partitions.add_and_remove import add, rebalance, remove
from celery_fair.cli.partitions.opened import settings_of, store_of
from celery_fair.cli.partitions.rows import HEADS, rows_of, words_of
from celery_fair.core.membership import Group
from celery_fair.groups.document import decoded
from celery_fair.worker.observe.depths import depths_of

__all__ = ["partitions"]


@click.group("partitions")
def partitions() -> None:
    """See which worker owns which partition, and change that.

    \b
    Examples:
      celery -A shop fair partitions status
      celery -A shop fair partitions remove customers.3
      celery -A shop fair partitions rebalance
    """


@partitions.command("status")
@click.option("-j", "--json", "as_json", is_flag=True, help="Print a list of objects as JSON.")
@click.pass_context
def status(ctx: click.Context, as_json: bool) -> None:
    """Show each partition of the app's groups.

    \b
    owner   the worker that may consume it; - if there is none
    next    the worker that is to own it, where that is another; or that it was removed
    token   how often it was granted: its fencing token
    since   when the owner has got it, or when it was given up (UTC)
    waiting messages at the broker that nobody has fetched yet; ? if it cannot be asked

    \b
    Examples:
      celery -A shop fair partitions status
      celery -A shop fair partitions status --json | python -m json.tool

    Exit status: 0; 1 if a partition has no owner, or the store cannot be reached.
    """
    settings = settings_of(ctx)
    with store_of(settings, "the groups of fair_group_store cannot be read") as store:
        groups = {name: decoded(store.read(name).text) for name in sorted(settings.partitions)}
    depths = _depths(ctx.obj.app, groups.values())
    rows = [row for name, group in groups.items() for row in rows_of(name, group, depths)]
    if as_json:
        click.echo(json.dumps(rows, indent=1))
    elif rows:
        click.echo("\n".join(aligned([HEADS, *map(words_of, rows)])))
    else:
        click.echo("no worker has joined a group yet")
    ctx.exit(0 if rows and all(row["owner"] or row["removed"] for row in rows) else 1)


@partitions.command("create")
@click.pass_context
def create(ctx: click.Context) -> None:
    """Make what the store of the groups needs, as far as it is missing.

    A table in an SQL database, nodes in ZooKeeper, nothing in Redis. Workers do this
    themselves where they may; where they may not, run this as somebody who may. What is there
    stays as it is.

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


partitions.add_command(add)
partitions.add_command(remove)
partitions.add_command(rebalance)


def _depths(app: Any, groups: Iterable[Group]) -> dict[str, int | None]:
    with app.connection_for_read() as connection:
        trouble = trouble_with(connection, "the app's broker_url (or in celery -b)")
        if trouble is not None:
            click.echo(trouble, err=True)
            return {}
        return depths_of(connection, frozenset().union(*(group.partitions for group in groups)))
