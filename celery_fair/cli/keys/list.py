"""``fair keys``."""

import sys
from collections.abc import Iterator
from time import time
from typing import Any

import click

from celery_fair.brokers.broker import broker_of
from celery_fair.brokers.keyed.lists import KeyedLists
from celery_fair.cli.keys.access import connected, lists_on
from celery_fair.cli.keys.lanes import of_lanes, shrunk, sorted_again
from celery_fair.cli.live.figures import duration, figure
from celery_fair.cli.options import COUNT, Outcome, outcome, table
from celery_fair.settings import Settings

__all__ = ["keys", "watched"]

_MINUTE = 60.0

_HEADS = (
    *("key", "weight", "target", "share", "starts/s", "running", "waiting", "parts", "oldest"),
    "held",
)


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
    target   its part of what is started, by the weights of those that have something waiting
    share    what it got of what was started of these, in this minute and the one before
    starts/s in these
    running  its tasks, of its cap; counted of keys that have one (max_in_flight)
    waiting  messages, of all its parts
    parts    how many of these have something waiting
    oldest   the age of the oldest of them, if its publisher has `install`
    held     why it starts nothing now: paused, its cap, or its leash (rate)

    A thousand keys are looked at, those whose turn comes first. What was published and is not yet
    sorted by key is counted, no more.

    That is on Redis. On RabbitMQ each worker keeps the keys' tags itself: what waits in the queue
    and in its lanes is shown, not whose it is.

    With --merge what was sorted goes back into the queue itself, each key's messages in their
    order, for workers without fair_keys. Stop workers with fair_keys first, and publishers with
    celery-fair: they would sort it again. As many are put back as there were at its beginning.

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

    Exit status: 0; 1 if the broker cannot be reached, not all lanes could be removed, or some
    messages were sorted again while others were put back.
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
    started = sum(each.started for each in found) or 1
    found.sort(key=lambda each: (-each.waiting, each.tenant))
    now = time()
    rows = [
        {
            **each.as_dict(),
            "target": each.weight / weights,
            "share": each.started / started,
            "per_second": each.started / (_MINUTE + now % _MINUTE),
            "oldest_seconds": _age(lists.oldest(each.tenant), now),
        }
        for each in found[:top]
    ]
    document = {"keys": tenants, "unsorted": unsorted, "top": rows}
    lines = [*_said(queue, tenants, unsorted), *table(_HEADS, map(_cells, rows), "")]
    return Outcome(document, [line for line in lines if line])


def _merged(queue: str, lists: KeyedLists) -> Outcome:
    before = lists.waiting()
    with click.progressbar(length=before, label="merging", file=sys.stderr) as bar:
        merged = some = lists.merge()
        bar.update(some)
        while some and merged < before:  # who sorts meanwhile would keep it busy for ever
            some = lists.merge()
            merged += some
            bar.update(some)
    left = lists.waiting()
    lines = [f"{merged} messages are back in {queue}"]
    if left:
        lines.append(sorted_again(left, "keys' lists"))
    return Outcome({"merged": merged, "left": left}, lines, good=not left)


def _said(queue: str, tenants: int, unsorted: int) -> list[str]:
    more = f", and {unsorted} messages are unsorted yet" if unsorted else ""
    return [f"{queue}: {tenants} keys have messages waiting{more}"]


def _age(published: float | None, now: float) -> float | None:
    return None if published is None else max(0.0, now - published)


def _cells(row: dict[str, Any]) -> list[Any]:
    cap = row["max_in_flight"]
    said = {
        **row,
        "key": row["tenant"] or None,
        "target": f"{row['target']:.1%}",
        "share": f"{row['share']:.1%}",
        "starts/s": figure(row["per_second"]),
        "oldest": None if row["oldest_seconds"] is None else duration(row["oldest_seconds"]),
        "running": None if cap is None else f"{row['running']} of {cap}",
        "held": row["reason"] or None,
    }
    return [said[name] for name in _HEADS]
