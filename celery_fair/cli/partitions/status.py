"""``fair partitions status``."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import click

from celery_fair.brokers.broker import broker_of
from celery_fair.brokers.depths import depths_of
from celery_fair.cli.columns import aligned
from celery_fair.cli.options import Outcome, outcome
from celery_fair.cli.partitions.access import by_number, settings_of, store_of
from celery_fair.core.membership import Grant, Group, elsewhere
from celery_fair.groups.document import decoded
from celery_fair.operate.broker import connection_to, trouble_with
from celery_fair.operate.text import escaped

__all__ = ["rows_of", "status"]

_HEADS = ["partition", "group", "owner", "next", "token", "since", "waiting"]


@click.command("status")
@outcome("Print a list of objects as JSON.")
@click.pass_context
def status(ctx: click.Context) -> Outcome:
    """Show each partition of the app's groups.

    \b
    owner   the worker that may consume it; - if there is none
    next    the worker that is to own it, if that is another one; or that it was removed
    token   how often it was granted: its fencing token
    since   when its owner was granted it, or the last one gave it up (UTC)
    waiting messages that no worker has fetched from the broker; ? if it cannot be asked

    \b
    Examples:
      celery -A shop fair partitions status
      celery -A shop fair partitions status --json | python -m json.tool

    Exit status: 0; 1 if a partition has no owner, or the store cannot be reached.
    """
    rows = rows_of(ctx, lambda text: click.echo(escaped(f"Note: {text}"), err=True))
    lines = aligned([_HEADS, *map(_cells, rows)]) if rows else ["no worker has joined a group yet"]
    good = bool(rows) and all(row["owner"] or row["removed"] for row in rows)
    return Outcome(rows, lines, good)


def rows_of(
    ctx: click.Context, note: Callable[[str], object] = lambda _: None
) -> list[dict[str, Any]]:
    """Return what is known of each partition of the app's groups.

    Arguments:
        note: is told of a group that is another app's.

    Raises:
        click.ClickException: there are none, or the store cannot be reached.
    """
    settings = settings_of(ctx)
    with store_of(settings, "the groups of fair_group_store cannot be read") as store:
        groups = {name: decoded(store.read(name).text) for name in sorted(settings.partitions)}
    depths = _depths(ctx.obj.app, groups, note)
    return [row for name, group in groups.items() for row in _rows(name, group, depths)]


def _depths(
    app: Any, groups: Mapping[str, Group], note: Callable[[str], object]
) -> dict[str, int | None]:
    with connection_to(app.connection_for_read) as connection:
        trouble = trouble_with(connection)
        if trouble is not None:
            click.echo(escaped(trouble), err=True)
            return {}
        for text in _elsewhere(broker_of(connection).identity(connection), groups):
            note(text)
        return depths_of(
            connection, frozenset().union(*(group.partitions for group in groups.values()))
        )


def _elsewhere(here: str, groups: Mapping[str, Group]) -> Iterator[str]:
    for name, group in groups.items():
        for member, broker in sorted(elsewhere(group, here, group.members).items())[:1]:
            yield (
                f"group {name!r} is one of workers on another broker: {member} is on {broker}, and"
                f" this app on {here}, which is asked what waits"
            )


def _rows(name: str, group: Group, depths: Mapping[str, int | None]) -> Iterator[dict[str, Any]]:
    """Return a row for each of a group's partitions, by number.

    Arguments:
        depths: how many messages wait for which, as far as that is known.
    """
    for partition in sorted(group.partitions, key=by_number):
        grant, planned = group.grants.get(partition, Grant()), group.plan.get(partition)
        yield {
            "partition": partition,
            "group": name,
            "owner": grant.owner,
            "next": None if planned == grant.owner else planned,
            "token": grant.token,
            "since": grant.since,
            "waiting": depths.get(partition),
            "removed": partition in group.out,
        }


def _cells(row: Mapping[str, Any]) -> list[str]:
    """Return a row's cells."""
    since = datetime.fromtimestamp(row["since"], UTC).strftime("%Y-%m-%d %H:%M:%S")
    said = {
        **row,
        "owner": row["owner"] or "-",
        "next": "removed" if row["removed"] else row["next"] or "-",
        "since": since if row["since"] else "-",
        "waiting": "?" if row["waiting"] is None else row["waiting"],
    }
    return [str(said[name]) for name in _HEADS]
