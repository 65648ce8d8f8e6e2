"""``fair keys``: the keys (tenants) of a queue that is shared by them."""

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any, TypeVar

import click

from celery_fair.brokers.lanes import register
from celery_fair.cli.groups import Group
from celery_fair.cli.interrupt import in_steps, stoppable
from celery_fair.cli.options import COUNT, Outcome, app_of, outcome, table
from celery_fair.operate.keys import (
    Listing,
    Moved,
    live_options,
    opened,
    shown_key,
    whole_tenant,
    why,
)
from celery_fair.operate.text import duration, escaped, figure

__all__ = ["keys", "lines_of"]

T = TypeVar("T")

_HEADS = (
    *("key", "weight", "target", "share", "starts/s", "running", "waiting", "parts", "oldest"),
    "held",
)

_as_json = outcome("Print an object as JSON.")


@click.group(cls=Group)
def keys() -> None:
    """See whose messages wait in a queue of fair_keys, and change what a key may.

    A KEY is a tenant; written tenant/part, a part of it. --no-key in its place means messages that
    have none.

    \b
    Examples:
      celery -A shop fair keys list jobs
      celery -A shop fair keys show jobs acme
      celery -A shop fair keys set jobs acme weight=5
    """


def _key(command: Callable[..., T]) -> Callable[..., T]:
    """Give a command the arguments QUEUE and KEY, or --no-key in its place; call it with `key`.

    It is "" for messages that have no key. An empty KEY does not mean them, as an empty text is
    what a variable of the shell is that was not set; and any text may be somebody's key.
    """

    @click.argument("queue")
    @click.argument("key", required=False)
    @click.option("--no-key", is_flag=True, help="Mean messages that have no key, in place of KEY.")
    @wraps(command)
    def asked(*args: Any, key: str | None, no_key: bool, **given: Any) -> T:
        if no_key and key is not None and "options" in given:  # which come after KEY
            key, given["options"] = None, (key, *given["options"])
        return command(*args, key=_meant(key, no_key), **given)

    return asked


def _meant(key: str | None, no_key: bool) -> str:
    if no_key:
        if key is not None:
            raise click.UsageError(
                f"--no-key means messages that have no key, and takes no KEY: leave {key!r} out"
            )
        return ""
    if key is None:
        raise click.MissingParameter(param_type="argument", param_hint="'KEY'")
    tenant, slash, part = key.partition("/")
    if not tenant or (slash and not part):
        raise click.UsageError(
            f"KEY is {key!r}, in which a name is empty, as a variable is that is not set; a whole"
            " tenant is written without the slash, and messages that have no key are --no-key"
        )
    return key


@keys.command("list")
@click.argument("queue")
@click.option("--top", type=COUNT, default=20, help="So many keys, those with most waiting.")
@_as_json
@click.pass_context
def list_keys(ctx: click.Context, queue: str, top: int) -> Outcome:
    """Show whose messages wait in QUEUE.

    \b
    key      the tenant; - for messages without a key
    weight   as it is now, see fair keys set
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

    \b
    Examples:
      celery -A shop fair keys list jobs
      celery -A shop fair keys list jobs --json | python -m json.tool

    Exit status: 0; 1 if the broker cannot be reached.
    """
    with opened(app_of(ctx), queue) as keys:
        found = keys.listing(top)
    return Outcome(found.as_dict(), lines_of(queue, found))


def lines_of(queue: str, found: Listing) -> Iterator[str]:
    """Yield whose messages wait, as lines."""
    if found.lanes is None:
        more = f", and {found.unsorted} messages are unsorted yet" if found.unsorted else ""
        yield escaped(f"{queue}: {found.keys} keys have messages waiting{more}")
    else:
        said = (
            f"{queue}: {found.front} messages wait in the queue itself, and {found.in_lanes} in"
            f" {found.filled} of its {found.lanes} lanes"
        )
        if found.unseen:
            said += f"; whose {found.unseen} of these are, no worker has seen yet"
        yield escaped(said)
    if found.trouble:
        yield escaped(found.trouble)
    yield from filter(None, table(_HEADS, map(_cells, found.top), ""))


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


@keys.command("show")
@_key
@_as_json
@click.pass_context
def show_key(ctx: click.Context, queue: str, key: str) -> Outcome:
    """Say what KEY has waiting in QUEUE, and why that does not start.

    On RabbitMQ what waits in lanes is counted that workers know to be KEY's; see `fair keys list`.

    \b
    Examples:
      celery -A shop fair keys show jobs acme
      celery -A shop fair keys show jobs acme --json

    Exit status: 0; 1 if the broker cannot be reached.
    """
    tenant = whole_tenant(key, "ask for the tenant, whose share its parts have together")
    with opened(app_of(ctx), queue) as keys:
        found, unsorted = keys.backlog(tenant)
    limits = found.limits
    lines = [
        why(queue, found),
        f"weight {found.weight:g}, {found.started} started in this minute and the one before",
    ]
    if limits.max_in_flight is not None:
        lines.append(f"max_in_flight {limits.max_in_flight}, {found.running} run")
    if limits.rate is not None:
        lines.append(f"rate {limits.rate:g}/s, burst {limits.burst:g}")
    if unsorted:
        lines.append(f"{unsorted} messages are unsorted yet, of whichever key")
    return Outcome({**found.as_dict(), "unsorted": unsorted}, lines)


@keys.command("set")
@_key
@click.argument("options", nargs=-1, metavar="[OPTION=VALUE]...")
@click.option("--reset", is_flag=True, help="Let it have what the settings say again.")
@_as_json
@click.pass_context
def set_key(
    ctx: click.Context, queue: str, key: str, options: Sequence[str], reset: bool
) -> Outcome:
    """Change what KEY has of QUEUE, for all workers, at once.

    \b
    weight=N          its share is N by the sum of the weights of all keys with something waiting
    max_in_flight=N   its tasks that run at once, in all workers; none for any number
    rate=N/s          its starts per second, in all workers; also N/m, N/h, none
    burst=N           of these, so many at once; needs a rate

    The broker keeps it: it also holds for what is waiting already, and for workers that start
    later, until it is set again or --reset, which ends no pause. The key is written as in the
    header x-fair-key; --no-key in its place means messages that have none.

    \b
    Examples:
      celery -A shop fair keys set jobs acme weight=5
      celery -A shop fair keys set jobs acme max_in_flight=20 rate=10/s
      celery -A shop fair keys set jobs acme --reset

    Exit status: 0; 1 if the broker cannot be reached; 2 for an option that cannot be.
    """
    tenant = whole_tenant(key, "parts weigh the same, and have no limits")
    if reset == bool(options):
        raise click.UsageError(
            "write what it is to have, such as weight=5 or max_in_flight=20, or else --reset"
        )
    asked = {} if reset else live_options(queue, options)
    with opened(app_of(ctx), queue) as keys:
        keys.reset(tenant) if reset else keys.set(tenant, asked)
    has = "what the settings say" if reset else ", ".join(options)
    document = {"queue": queue, "key": tenant, **asked}
    return Outcome(document, [f"{shown_key(tenant)} has {has} in {queue}"])


@keys.command("pause")
@_key
@_as_json
@click.pass_context
def pause_key(ctx: click.Context, queue: str, key: str) -> Outcome:
    """Start no more messages of KEY in QUEUE, on any worker, until it is resumed.

    What runs goes on, and what comes in waits. The broker keeps it.

    \b
    Example:
      celery -A shop fair keys pause jobs acme

    Exit status: 0; 1 if the broker cannot be reached.
    """
    return _pause(ctx, queue, key, True)


@keys.command("resume")
@_key
@_as_json
@click.pass_context
def resume_key(ctx: click.Context, queue: str, key: str) -> Outcome:
    """Start messages of KEY in QUEUE again, which was paused.

    \b
    Example:
      celery -A shop fair keys resume jobs acme

    Exit status: 0; 1 if the broker cannot be reached.
    """
    return _pause(ctx, queue, key, False)


def _pause(ctx: click.Context, queue: str, key: str, paused: bool) -> Outcome:
    tenant = whole_tenant(key, "a tenant is paused as a whole")
    with opened(app_of(ctx), queue) as keys:
        keys.pause(tenant, paused)
    done = "paused" if paused else "resumed"
    document = {"queue": queue, "key": tenant, "paused": paused}
    return Outcome(document, [f"{shown_key(tenant)} is {done} in {queue}"])


@keys.command("drop")
@_key
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Say how many messages that would be.")
@_as_json
@click.pass_context
def drop_key(ctx: click.Context, queue: str, key: str, yes: bool, dry_run: bool) -> Outcome:
    """Move what KEY has waiting in QUEUE to the dead letters, those that came first at first.

    They are kept there: `fair dead-letters replay --all --reason dropped` has them back, and
    `fair dead-letters purge` deletes them. What runs goes on, and what is published from now on
    starts as before: pause the key first, if it should not. A tenant's parts are dropped with it;
    written tenant/part, the part alone. --no-key in place of KEY means messages that have none.
    On RabbitMQ a key's messages cannot be told from others.

    It asks first; where standard input is no terminal, --yes is needed.

    \b
    Examples:
      celery -A shop fair keys drop jobs acme --dry-run
      celery -A shop fair keys drop jobs acme --yes
      celery -A shop fair keys drop jobs acme/user-7

    Exit status: 0; 1 if the broker cannot be reached, or not all was dropped.
    """
    if not (dry_run or yes or sys.stdin.isatty()):
        raise click.UsageError("drop moves messages away; say --yes, or --dry-run to look")
    with opened(app_of(ctx), queue) as keys:
        waiting = keys.waiting_of(key)
        count = sum(waiting.values())
        document = {"queue": queue, "key": key, "waiting": count, "dropped": 0}
        if dry_run or not count:
            said = f"{shown_key(key)} has {count or 'no'} messages waiting in {queue}"
            return Outcome(document, [said])
        if not yes:
            click.confirm(f"Move {count} messages to the dead letters?", abort=True, err=True)
        with in_steps("dropping", count) as (stop, tick):
            dropped = keys.drop(key, waiting, stop, tick)
    lines = [f"{dropped.count} messages of {shown_key(key)} are dead letters now"]
    if dropped.left:
        lines.append(f"{dropped.left} are still waiting, as this was interrupted; say it again")
    document |= {"dropped": dropped.count, "left": dropped.left}
    return Outcome(document, lines, not dropped.left)


@keys.command("merge")
@click.argument("queue")
@_as_json
@click.pass_context
def merge_keys(ctx: click.Context, queue: str) -> Outcome:
    """Put what was sorted by key back into QUEUE itself, each key's messages in their order.

    It is for workers without fair_keys, and for Celery's purge. Stop workers with fair_keys first,
    and publishers with celery-fair: they would sort it again. As many are put back as there were at
    its beginning.

    \b
    Example:
      celery -A shop fair keys merge jobs

    Exit status: 0; 1 if the broker cannot be reached, or some messages were sorted again while
    others were put back.
    """
    with opened(app_of(ctx), queue) as keys:
        waiting = keys.waiting()
        with in_steps("merging", sum(waiting.values())) as (stop, tick):
            merged = keys.merge(waiting, stop, tick)
    lines = [f"{merged.count} messages are back in {queue}"]
    if merged.left:
        lines.append(_not_merged(merged, keys.place))
    return Outcome({"merged": merged.count, "left": merged.left}, lines, not merged.left)


def _not_merged(merged: Moved, place: str) -> str:
    if merged.interrupted:
        return f"about {merged.left} still wait in {place}, as this was interrupted; say it again"
    return (
        f"{merged.left} wait in {place} again: workers with fair_keys, or publishers with"
        " celery-fair, are at work. Stop them, and say it again"
    )


@keys.command("shrink")
@click.argument("queue")
@click.option("--yes", "-y", is_flag=True, help="Do not ask whether all is stopped.")
@_as_json
@click.pass_context
def shrink_keys(ctx: click.Context, queue: str, yes: bool) -> Outcome:
    """Remove lanes of QUEUE on RabbitMQ that are empty, the highest numbers first.

    Stop all workers and all publishers of the queue before: what one of them sends to a lane just
    then would be lost, and so could be what a worker runs of it. It asks whether you have, and
    refuses while a worker of the queue answers. A lane that is not empty stays; `fair keys merge`
    empties them.

    \b
    Examples:
      celery -A shop fair keys merge jobs
      celery -A shop fair keys shrink jobs --yes

    Exit status: 0; 1 if the broker cannot be reached, or not all lanes could be removed.
    """
    with opened(app_of(ctx), queue) as keys:
        if not (yes or sys.stdin.isatty()):
            raise click.UsageError("say --yes when all workers and publishers of it are stopped")
        if not yes:
            asked = f"Are all workers and all publishers of {queue} stopped?"
            click.confirm(asked, abort=True, err=True)
        with stoppable() as stop:
            removed = keys.shrink(stop)
    lines = [f"{removed.count} empty lanes of {queue} are removed, {removed.left} are left"]
    if removed.left:
        last = f"{register(queue)}.{removed.left - 1}"
        lines.append(
            f"{last} is not empty, and lanes are numbered without gaps: `fair keys merge {queue}`"
            " puts what waits in lanes back into the queue itself; then say this again"
        )
    document = {"removed": removed.count, "left": removed.left}
    return Outcome(document, lines, not removed.left)
