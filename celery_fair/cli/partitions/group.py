"""``fair partitions``: who owns what, and where that is kept."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Any

import click
from celery.exceptions import ImproperlyConfigured

from celery_fair.cli.columns import aligned
from celery_fair.core.membership import Grant, Group
from celery_fair.groups import GroupStore, StoreUnreachableError, store_at
from celery_fair.groups.document import decoded
from celery_fair.settings import Settings

__all__ = ["partitions"]


@click.group("partitions")
def partitions() -> None:
    """See which worker owns which partition, and make what their store needs.

    \b
    Examples:
      celery -A shop fair partitions status
      celery -A shop fair partitions create
    """


@partitions.command("status")
@click.option("-j", "--json", "as_json", is_flag=True, help="Print a list of objects as JSON.")
@click.pass_context
def status(ctx: click.Context, as_json: bool) -> None:
    """Show each partition of the app's groups.

    \b
    owner   the worker that may consume it; - if there is none
    next    the worker that is to own it, where that is another
    token   how often it was granted: its fencing token
    since   when the owner has got it, or when it was given up (UTC)

    \b
    Examples:
      celery -A shop fair partitions status
      celery -A shop fair partitions status --json | python -m json.tool

    Exit status: 0; 1 if a partition has no owner, or the store cannot be reached.
    """
    settings = _settings(ctx)
    rows = [row for name, group in _groups(settings) for row in _rows(name, group)]
    if as_json:
        click.echo(json.dumps(rows, indent=1))
    elif rows:
        click.echo("\n".join(aligned([list(rows[0]), *(_words(row) for row in rows)])))
    else:
        click.echo("no worker has joined a group yet")
    ctx.exit(0 if rows and all(row["owner"] for row in rows) else 1)


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
    with _store(_settings(ctx), "what fair_group_store needs cannot be made") as store:
        made = store.create()
    for name, missing in made.items():
        click.echo(f"{name}: {'made' if missing else 'is there'}")
    if not made:
        click.echo("nothing to do: a store of this kind needs nothing made beforehand")


def _settings(ctx: click.Context) -> Settings:
    if ctx.obj is None:  # not through Celery
        words = f"partitions {ctx.info_name}"
        raise click.UsageError(f"{words} looks at the groups of an app: celery -A app fair {words}")
    try:
        settings = Settings.of(ctx.obj.app)
    except ImproperlyConfigured as exc:
        raise click.ClickException(str(exc)) from exc
    if settings.group is None or not settings.partitioned:
        raise click.ClickException(
            "the app has no groups: set fair_partitions and fair_group_store"
        )
    return settings


@contextmanager
def _store(settings: Settings, failure: str) -> Iterator[GroupStore]:
    assert settings.group is not None
    try:
        with closing(store_at(settings.group.store)) as store:
            yield store
    except (StoreUnreachableError, ImproperlyConfigured, ValueError) as exc:
        raise click.ClickException(
            f"{failure}: {exc}; start the store, or correct its URL"
        ) from exc


def _groups(settings: Settings) -> Iterator[tuple[str, Group]]:
    with _store(settings, "the groups of fair_group_store cannot be read") as store:
        for name in sorted(settings.partitions):
            yield name, decoded(store.read(name).text)


def _rows(name: str, group: Group) -> Iterator[dict[str, Any]]:
    for partition in sorted(group.active, key=lambda p: (p.rpartition(".")[0], len(p), p)):
        grant, planned = group.grants.get(partition, Grant()), group.plan.get(partition)
        yield {
            "partition": partition,
            "group": name,
            "owner": grant.owner,
            "next": None if planned == grant.owner else planned,
            "token": grant.token,
            "since": grant.since,
        }


def _words(row: dict[str, Any]) -> list[str]:
    since = datetime.fromtimestamp(row["since"], UTC).strftime("%Y-%m-%d %H:%M:%S")
    return [str(row[name] or "-") for name in ("partition", "group", "owner", "next", "token")] + [
        since if row["since"] else "-"
    ]
