"""``fair keys``."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from time import time
from typing import Any

import click

from celery_fair.brokers.broker import broker_of
from celery_fair.brokers.keyed.lists import Backlog, KeyedLists
from celery_fair.cli.keys.access import connected, lists_on, store_asked
from celery_fair.cli.keys.lanes import look, merged, shrunk, sorted_again
from celery_fair.cli.keys.of_workers import Crew, backlogs, unknown
from celery_fair.cli.options import COUNT, Outcome, outcome, table
from celery_fair.operate.errors import NoAnswerError
from celery_fair.operate.text import duration, figure
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
    running  its tasks, of its cap (max_in_flight); on Redis, of keys that have one
    waiting  messages, of all its parts
    parts    how many of these have something waiting
    oldest   the age of the oldest of them, if its publisher has `install`; on Redis
    held     why it starts nothing now: paused, its cap, or its leash (rate)

    A thousand keys are looked at, those whose turn comes first. What was published and is not yet
    sorted by key is counted, no more.

    On RabbitMQ workers are asked: whose the lanes are, whom they have served, and of whom tasks
    run. A lane counts as the key's whose message came from it last. Of what waits in the queue
    itself, and in lanes that no worker has taken anything from, it is not known whose it is.

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
            if merge:
                return merged(app, settings, connection, queue)
            with closing(Crew(app, queue)) as crew:
                return _of_lanes(app, settings, connection, queue, top, crew)
        lists = lists_on(connection, settings, queue)
        return _put_back(queue, lists) if merge else _of_lists(lists, queue, top)


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
    with connected(ctx, queue) as (app, settings, connection), closing(Crew(app, queue)) as crew:
        while True:
            if broker_of(connection).has_lanes:
                yield _of_lanes(app, settings, connection, queue, top, crew)
            else:
                yield _of_lists(lists_on(connection, settings, queue), queue, top)


def _of_lists(lists: KeyedLists, queue: str, top: int) -> Outcome:
    tenants, unsorted, found = lists.look()
    shown, rows = _table(found, top, lists.oldest)
    more = f", and {unsorted} messages are unsorted yet" if unsorted else ""
    said = f"{queue}: {tenants} keys have messages waiting{more}"
    return Outcome({"keys": tenants, "unsorted": unsorted, "top": rows}, [said, *shown])


def _of_lanes(
    app: Any, settings: Settings, connection: Any, queue: str, top: int, crew: Crew
) -> Outcome:
    waits, seen, trouble = look(app, settings, connection, queue), list[Mapping[str, Any]](), ""
    try:
        seen = crew.ask()
    except NoAnswerError as exc:  # this user may not ask them, say
        trouble = f"the workers could not be asked whose they are: {exc}"
    front, lanes, filled = waits
    with store_asked():
        found = backlogs(settings, queue, filled, seen)
    shown, rows = _table(found, top, lambda _: None)
    waiting, nobodys = sum(filled.values()), unknown(waits, seen)
    tenants = sum(bool(each.waiting) for each in found)
    document = {
        "keys": tenants,
        "unsorted": front + nobodys,
        "front": front,
        "lanes": lanes,
        "waiting": front + waiting,
        "top": rows,
    }
    said = (
        f"{queue}: {front} messages wait in the queue itself, and {waiting} in {len(filled)} of its"
        f" {lanes} lanes"
    )
    if nobodys:
        said += f"; whose {nobodys} of these are, no worker has seen yet"
    return Outcome(document, [line for line in (said, trouble, *shown) if line])


def _table(
    found: list[Backlog], top: int, oldest: Callable[[str], float | None]
) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the rows of those that have most waiting, as lines and as data."""
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
            "oldest_seconds": _age(oldest(each.tenant), now),
        }
        for each in found[:top]
    ]
    return [line for line in table(_HEADS, map(_cells, rows), "") if line], rows


def _put_back(queue: str, lists: KeyedLists) -> Outcome:
    before = lists.waiting()
    with click.progressbar(length=before, label="merging", file=sys.stderr) as bar:
        back = some = lists.merge()
        bar.update(some)
        while some and back < before:  # who sorts meanwhile would keep it busy for ever
            some = lists.merge()
            back += some
            bar.update(some)
    left = lists.waiting()
    lines = [f"{back} messages are back in {queue}"]
    if left:
        lines.append(sorted_again(left, "keys' lists"))
    return Outcome({"merged": back, "left": left}, lines, good=not left)


def _age(published: float | None, now: float) -> float | None:
    return None if published is None else max(0.0, now - published)


def _cells(row: dict[str, Any]) -> list[Any]:
    cap = row["max_in_flight"]
    running = f"{row['running']} of {cap}" if cap is not None else row["running"] or None
    said = {
        **row,
        "key": row["tenant"] or None,
        "target": f"{row['target']:.1%}",
        "share": f"{row['share']:.1%}",
        "starts/s": figure(row["per_second"]),
        "oldest": None if row["oldest_seconds"] is None else duration(row["oldest_seconds"]),
        "running": running,
        "held": row["reason"] or None,
    }
    return [said[name] for name in _HEADS]
