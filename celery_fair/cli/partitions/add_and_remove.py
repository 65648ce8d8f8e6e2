"""``fair partitions remove | add | rebalance``: what an operator does to a group."""

from collections.abc import Callable, Collection, Sequence
from functools import partial

import click

from celery_fair.cli.partitions.access import by_number, settings_of, store_of
from celery_fair.core.membership import Group
from celery_fair.groups.amend import amend
from celery_fair.settings import Settings

__all__ = ["add", "rebalance", "remove"]

_FAILURE = "nothing was changed"
_partitions = click.argument("names", nargs=-1, required=True, metavar="PARTITION...")


@click.command("remove")
@_partitions
@click.pass_context
def remove(ctx: click.Context, names: Sequence[str]) -> None:
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
    moved = _each_group(settings_of(ctx), names, Group.taking_out)
    done = "removed; what runs there ends, then nothing begins any more"
    _say(names, moved, done, "was removed before; nothing was changed")


@click.command("add")
@_partitions
@click.pass_context
def add(ctx: click.Context, names: Sequence[str]) -> None:
    """Put partitions back that were removed: a worker of their group takes each over.

    How many there are is set by fair_partitions, and cannot be changed while workers run.

    \b
    Examples:
      celery -A shop fair partitions add customers.3

    Exit status: 0; 1 if the store cannot be reached; 2 if there is no such partition.
    """
    moved = _each_group(settings_of(ctx), names, Group.putting_back)
    _say(names, moved, "added", "is not removed; nothing was changed")


@click.command("rebalance")
@click.argument("groups", nargs=-1, metavar="[GROUP]...")
@click.pass_context
def rebalance(ctx: click.Context, groups: Sequence[str]) -> None:
    """Plan afresh which worker owns what, as if all had just joined, in these groups or in all.

    Groups plan by themselves whenever workers come or go, and then move as little as possible. This
    moves more.

    \b
    Examples:
      celery -A shop fair partitions rebalance
      celery -A shop fair partitions rebalance customers

    Exit status: 0; 1 if the store cannot be reached; 2 if there is no such group.
    """
    settings = settings_of(ctx)
    known = sorted(settings.partitions)
    for group in groups:
        if group not in known:
            raise click.UsageError(f"there is no group {group!r}; there are: {', '.join(known)}")
    with store_of(settings, _FAILURE) as store:
        for group in groups or known:
            amend(store, group, Group.unplanned)
            click.echo(f"{group}: workers make a new plan")


def _each_group(
    settings: Settings, names: Sequence[str], change: Callable[[Group, Sequence[str]], Group]
) -> set[str]:
    """Change the groups of partitions; return which partitions are now in, or out, and were not."""
    by_group, moved = _by_group(settings, names), set[str]()
    with store_of(settings, _FAILURE) as store:
        for group, some in by_group.items():
            every = frozenset(settings.partitions[group])
            before, after = amend(store, group, partial(_changed, every, change, some))
            moved |= before.out ^ after.out
    return moved


def _say(names: Sequence[str], moved: set[str], done: str, otherwise: str) -> None:
    for some, text in ((moved, done), (set(names) - moved, otherwise)):
        if some:
            click.echo(f"{_listed(some)}: {text}")


def _changed(
    every: frozenset[str],
    change: Callable[[Group, Sequence[str]], Group],
    some: Sequence[str],
    before: Group,
) -> Group:
    """Nobody may have joined yet: then the group has no partitions that could be changed."""
    known = before if before.partitions else before.of(every)
    return change(known, some)


def _by_group(settings: Settings, names: Sequence[str]) -> dict[str, list[str]]:
    groups = {name: group for group, every in settings.partitions.items() for name in every}
    found: dict[str, list[str]] = {}
    for name in names:
        if name not in groups:
            raise click.UsageError(
                f"there is no partition {name!r}; by fair_partitions there are: {_known(settings)}"
            )
        found.setdefault(groups[name], []).append(name)
    return found


def _known(settings: Settings) -> str:
    every = (queue.queues for queue in settings.partitioned.values())
    return ", ".join(f"{queues[0]} to {queues[-1]}" for queues in every)


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(set(names), key=by_number))
