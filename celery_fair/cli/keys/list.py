"""``fair keys``."""

import sys
from collections.abc import Iterator
from typing import Any

import click

from celery_fair.brokers.broker import broker_of
from celery_fair.brokers.keyed.lists import Backlog, KeyedLists
from celery_fair.cli.keys.access import connected, lists_on
from celery_fair.cli.keys.lanes import of_lanes, shrunk
from celery_fair.cli.options import COUNT, Outcome, outcome, table
from celery_fair.settings import Settings

__all__ = ["keys", "watched"]

_HEADS = ("key", "weight", "share", "waiting", "parts", "started", "running", "behind", "held")


@click.command("keys")
@click.argument("queue")
@click.option("--top", type=COUNT, default=20, help="So many keys, those with most waiting.")
@click.option("--merge", is_flag=True, help="Put everything back into the queue itself.")
@click.option("--shrink", is_flag=True, help="Remove empty lanes (RabbitMQ).")
@click.option("--yes", "-y", is_flag=True, help="Do not ask whether all is stopped.")
@outcome("Print an object as JSON.")
@click.pass_context
def keys(ctx: click.Context, queue: str, top: int, merge: bool, shrink: bool, yes: bool) -> Outcome:
    """Show whose messages wait in QUEUE, which is shared by key.

    \b
    key      the tenant; - for messages without a key
    weight   as it is now, see fair set-key
    share    of those that have something waiting, by weight
    waiting  messages, of all its parts
    parts    how many of these have something waiting
    started  messages in this minute and the one before
    running  its tasks, of its cap; counted of keys that have one (max_in_flight)
    behind   cost that keys of weight 1 are served each before it is its turn
    held     why it starts nothing now: paused, its cap, or its leash (rate)

    A thousand keys are looked at, those whose turn comes first. What was published and is not yet
    sorted by key is counted, no more.

    That is on Redis. On RabbitMQ each worker keeps the keys' tags itself: what waits in the queue
    and in its lanes is shown, not whose it is.

    With --merge what was sorted goes back into the queue itself, each key's messages in their
    order, for workers without fair_keys. Stop workers with fair_keys first: they would sort it
    again.

    With --shrink lanes of RabbitMQ that are empty are removed, the highest numbers first. Stop all
    workers and all publishers of the queue before: what one of them sends to a lane just then would
    be lost, and so could be what a worker runs of it. It asks whether you have, and refuses while a
    worker of the queue answers. A lane that is not empty stays.

    \b
    Examples:
      celery -A shop fair keys jobs
      celery -A shop fair keys jobs --json | python -m json.tool
      celery -A shop fair keys jobs --merge
      celery -A shop fair keys jobs --shrink --yes

    Exit status: 0; 1 if the broker cannot be reached, or not all lanes could be removed.
    """
    if merge and shrink:
        raise click.UsageError("--merge first, and then --shrink")
    with connected(ctx, queue) as (app, settings, connection):
        if shrink:
            return _shrunk(app, settings, connection, queue, yes)
        if broker_of(connection).has_lanes:
            return of_lanes(app, settings, connection, queue, top, merge)
        lists = lists_on(connection, settings, queue)
        return _merged(queue, lists) if merge else _of_lists(lists, queue, top)


def _shrunk(app: Any, settings: Settings, connection: Any, queue: str, yes: bool) -> Outcome:
    if not broker_of(connection).has_lanes:
        raise click.UsageError("there are lanes on RabbitMQ alone; Redis removes lists itself")
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("say --yes when all workers and publishers of the queue are stopped")
    if not yes:
        click.confirm(
            f"Are all workers and all publishers of {queue} stopped?", abort=True, err=True
        )
    return shrunk(app, settings, connection, queue)


def watched(ctx: click.Context, queue: str, top: int = 20) -> Iterator[Outcome]:
    """Yield what `keys` shows, again and again, on one connection."""
    with connected(ctx, queue) as (app, settings, connection):
        while True:
            if broker_of(connection).has_lanes:
                yield of_lanes(app, settings, connection, queue, top, False)
            else:
                yield _of_lists(lists_on(connection, settings, queue), queue, top)


def _of_lists(lists: KeyedLists, queue: str, top: int) -> Outcome:
    tenants, unsorted, found = lists.look()
    weights = sum(each.weight for each in found) or 1.0
    found.sort(key=lambda each: (-each.waiting, each.tenant))
    rows = [_row(each, each.weight / weights) for each in found[:top]]
    document = {"keys": tenants, "unsorted": unsorted, "top": rows}
    lines = [*_said(queue, tenants, unsorted), *table(_HEADS, map(_cells, rows), "")]
    return Outcome(document, [line for line in lines if line])


def _merged(queue: str, lists: KeyedLists) -> Outcome:
    before = left = lists.waiting()
    with click.progressbar(length=before, label="merging", file=sys.stderr) as bar:
        while (now := lists.merge()) or left:
            bar.update(left - now)
            left = now
    return Outcome({"merged": before}, [f"{before} messages are back in {queue}"])


def _said(queue: str, tenants: int, unsorted: int) -> list[str]:
    more = f", and {unsorted} messages are unsorted yet" if unsorted else ""
    return [f"{queue}: {tenants} keys have messages waiting{more}"]


def _row(found: Backlog, share: float) -> dict[str, Any]:
    return {**found.as_dict(), "share": share}


def _cells(row: dict[str, Any]) -> list[Any]:
    cap = row["max_in_flight"]
    said = {
        **row,
        "key": row["tenant"] or None,
        "share": f"{row['share']:.1%}",
        "running": None if cap is None else f"{row['running']} of {cap}",
        "behind": row["ahead"],
        "held": row["reason"] or None,
    }
    return [said[name] for name in _HEADS]
