"""``fair partitions``: which worker owns which, and what an operator does to a group."""

from collections.abc import Sequence
from dataclasses import asdict

import click

from celery_fair.cli.groups import Group
from celery_fair.cli.options import Outcome, outcome, table, the_app
from celery_fair.operate import partitions as operate
from celery_fair.operate.text import escaped
from celery_fair.pipeline.cells import moment

_HEADS = ["partition", "group", "owner", "next", "token", "since", "waiting"]

_names = click.argument("names", nargs=-1, required=True, metavar="PARTITION...")


@click.group(cls=Group)
def partitions() -> None:
    """See which worker owns which partition, and change that.

    \b
    Examples:
      celery -A shop fair partitions status
      celery -A shop fair partitions remove customers.3
      celery -A shop fair partitions rebalance
    """


@partitions.command()
@_names
def add(names: Sequence[str]) -> None:
    """Put partitions back that were removed: a worker of their group takes each over.

    How many there are is set by fair_partitions, and cannot be changed while workers run.

    \b
    Examples:
      celery -A shop fair partitions add customers.3

    Exit status: 0; 1 if the store cannot be reached; 2 if there is no such partition.
    """
    moved = operate.add(the_app(), names)
    _say(names, moved, "added", "is not removed; nothing was changed")


@partitions.command()
def create() -> None:
    """Make what the groups' store needs and does not have yet.

    That is a table in an SQL database, nodes in ZooKeeper, and nothing in Redis. Workers do this
    themselves where they are allowed to; where they are not, run this as somebody who is. What is
    already there stays as it is.

    \b
    Examples:
      celery -A shop fair partitions create

    Exit status: 0; 1 if the store cannot be reached.
    """
    made = operate.create(the_app())
    for name, missing in made.items():
        click.echo(f"{name}: {'made' if missing else 'is there'}")
    if not made:
        click.echo("nothing to do: a store of this kind needs nothing made beforehand")


@partitions.command()
@click.argument("groups", nargs=-1, metavar="[GROUP]...")
def rebalance(groups: Sequence[str]) -> None:
    """Plan afresh which worker owns what, as if all had just joined, in these groups or in all.

    Groups plan by themselves whenever workers come or go, and then move as little as possible. This
    moves more.

    \b
    Examples:
      celery -A shop fair partitions rebalance
      celery -A shop fair partitions rebalance customers

    Exit status: 0; 1 if the store cannot be reached; 2 if there is no such group.
    """
    for group in operate.rebalance(the_app(), groups):
        click.echo(f"{group}: workers make a new plan")


@partitions.command()
@_names
def remove(names: Sequence[str]) -> None:
    """Take partitions out of their group: nobody consumes them until they are added again.

    Their owners stop as at any rebalance, after what runs. Messages are published to them as
    before, and wait. This outlives the workers: it is kept in the store. Of those that were removed
    before it says so.

    \b
    Examples:
      celery -A shop fair partitions remove customers.3
      celery -A shop fair partitions remove customers.3 customers.4

    Exit status: 0; 1 if the store cannot be reached; 2 if there is no such partition.
    """
    moved = operate.remove(the_app(), names)
    done = "removed; what runs there ends, then nothing begins any more"
    _say(names, moved, done, "was removed before; nothing was changed")


def _say(names: Sequence[str], moved: set[str], done: str, otherwise: str) -> None:
    for some, text in ((moved, done), (set(names) - moved, otherwise)):
        if some:
            click.echo(f"{', '.join(sorted(some, key=operate.by_number))}: {text}")


@partitions.command()
@outcome("Print a list of objects as JSON.")
def status() -> Outcome:
    """Show each partition of the app's groups.

    \b
    owner   the worker that may consume it; – if there is none
    next    the worker that is to own it, if that is another one; or that it was removed
    token   how often it was granted: its fencing token
    since   when its owner was granted it, or the last one gave it up (UTC)
    waiting messages that no worker has fetched from the broker; – if it cannot be asked

    \b
    Examples:
      celery -A shop fair partitions status
      celery -A shop fair partitions status --json | python -m json.tool

    Exit status: 0; 1 if a partition has no owner, or the store cannot be reached.
    """
    found = operate.look(the_app())
    rows = found.rows
    lines = table(_HEADS, map(_cells, rows), "no worker has joined a group yet")
    good = bool(rows) and all(row.owner or row.removed for row in rows)
    notes = [escaped(f"Note: {text}") for text in found.notes]
    return Outcome([asdict(row) for row in rows], lines, good, notes)


def _cells(row: operate.Partition) -> list[str | int | None]:
    coming = "removed" if row.removed else row.next
    since = moment(row.since) if row.since else None
    return [row.partition, row.group, row.owner, coming, row.token, since, row.waiting]
