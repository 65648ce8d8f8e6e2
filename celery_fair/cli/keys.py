"""``fair keys``: the keys (tenants) of a queue that is shared by them."""

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any, TypeVar

import click

from celery_fair.cli.groups import Group
from celery_fair.cli.options import COUNT, Outcome, outcome, table, the_app
from celery_fair.operate.keys import live_options, opened, whole_tenant
from celery_fair.operate.keys.keys import Listing, shown_key, why
from celery_fair.operate.text import counted, duration, escaped

T = TypeVar("T")

_HEADS = (
    *("key", "weight", "fair", "share", "started", "running", "waiting", "parts", "oldest"),
    "held",
)

_as_json = outcome("Print an object as JSON.")


@click.group("keys", cls=Group)
def keys_group() -> None:
    """See whose messages wait in a queue of fair_keys, and change what a key may.

    A KEY is a tenant; written tenant/part, a part of it. --no-key in its place means messages that
    have none.

    \b
    Examples:
      celery -A shop fair keys list jobs
      celery -A shop fair keys show jobs acme
      celery -A shop fair keys set jobs acme weight=5
    """


def key_argument(command: Callable[..., T]) -> Callable[..., T]:
    """Give a command the arguments QUEUE and KEY, or --no-key in its place; call it with `key`.

    It is "" for messages that have no key. An empty KEY does not mean them, as an empty text is
    what a variable of the shell is that was not set; and any text may be somebody's key.
    """

    @click.argument("queue")
    @click.argument("key", required=False)
    @click.option("--no-key", is_flag=True, help="Mean messages that have no key, in place of KEY.")
    @wraps(command)
    def asked(*args: Any, key: str | None, no_key: bool, **given: Any) -> T:
        if given.get("everybody") and key is None and not no_key:
            return command(*args, key=None, **given)
        if no_key and key is not None and "options" in given:  # which come after KEY
            key, given["options"] = None, (key, *given["options"])
        return command(*args, key=_meant(key, no_key), **given)

    return asked


def _meant(key: str | None, no_key: bool) -> str:
    if no_key is (key is not None):
        raise click.UsageError("name a KEY, or say --no-key, for messages that have none")
    if key is None:
        return ""
    tenant, slash, part = key.partition("/")
    if not tenant or (slash and not part):
        raise click.UsageError(
            f"KEY is {key!r}, in which a name is empty, as a variable is that is not set; a whole"
            " tenant is written without the slash, and messages that have no key are --no-key"
        )
    return key


@keys_group.command("list")
@click.argument("queue")
@click.option("--top", type=COUNT, default=20, help="So many keys, those with most waiting.")
@_as_json
def list_keys(queue: str, top: int) -> Outcome:
    """Show whose messages wait in QUEUE.

    \b
    key      the tenant; - for messages without a key
    weight   as it is now, see fair keys set
    fair     its part of what is started, by the weights of those that have something waiting
    share    what it got of what was started of these, in this minute and the one before
    started  messages, in these
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
    with opened(the_app(), queue) as keys:
        found = keys.listing(top)
    return Outcome(found.as_dict(), lines_of(queue, found))


def lines_of(queue: str, found: Listing) -> Iterator[str]:
    """Yield whose messages wait, as lines."""
    said = f"{queue}: {counted(found.keys, 'key has', 'keys have')} messages waiting"
    if found.unsorted:
        said += f", and {counted(found.unsorted, 'message is', 'messages are')} unsorted yet"
    if found.lanes is not None:
        said += f"; {found.front} wait in the queue itself, the others in its {found.lanes} lanes"
    yield from map(escaped, filter(None, [said, found.trouble]))
    yield from filter(None, table(_HEADS, map(_cells, found.top), ""))


def _cells(row: dict[str, Any]) -> list[Any]:
    cap = row["max_in_flight"]
    running = f"{row['running']} of {cap}" if cap is not None else row["running"] or None
    said = {
        **row,
        "key": row["tenant"] or None,
        "fair": f"{row['target']:.1%}",
        "share": f"{row['share']:.1%}",
        "oldest": None if row["oldest_seconds"] is None else duration(row["oldest_seconds"]),
        "running": running,
        "held": row["reason"] or None,
    }
    return [said[name] for name in _HEADS]


@keys_group.command("show")
@key_argument
@_as_json
def show_key(queue: str, key: str) -> Outcome:
    """Say what KEY has waiting in QUEUE, and why that does not start; --json says what it may, too.

    On RabbitMQ what waits in lanes is counted that workers know to be KEY's; see `fair keys list`.

    \b
    Examples:
      celery -A shop fair keys show jobs acme
      celery -A shop fair keys show jobs acme --json

    Exit status: 0; 1 if the broker cannot be reached.
    """
    tenant = whole_tenant(key, "ask for the tenant, whose share its parts have together")
    with opened(the_app(), queue) as keys:
        found, unsorted = keys.backlog(tenant)
    lines = [why(queue, found)]
    if unsorted:
        said = counted(unsorted, "message is", "messages are")
        lines.append(f"{said} unsorted yet, of whichever key")
    return Outcome({**found.as_dict(), "unsorted": unsorted}, lines)


@keys_group.command("set")
@key_argument
@click.argument("options", nargs=-1, metavar="[OPTION=VALUE]...")
@click.option("--reset", is_flag=True, help="Let it have what the settings say again.")
@_as_json
def set_key(queue: str, key: str, options: Sequence[str], reset: bool) -> Outcome:
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
    with opened(the_app(), queue) as keys:
        keys.reset(tenant) if reset else keys.set(tenant, asked)
    has = "what the settings say" if reset else ", ".join(options)
    document = {"queue": queue, "key": tenant, **asked}
    return Outcome(document, [f"{shown_key(tenant)} has {has} in {queue}"])


@keys_group.command("pause")
@key_argument
@_as_json
def pause_key(queue: str, key: str) -> Outcome:
    """Start no more messages of KEY in QUEUE, on any worker, until it is resumed.

    What runs goes on, and what comes in waits. The broker keeps it.

    \b
    Example:
      celery -A shop fair keys pause jobs acme

    Exit status: 0; 1 if the broker cannot be reached.
    """
    return _pause(queue, key, True)


@keys_group.command("resume")
@key_argument
@_as_json
def resume_key(queue: str, key: str) -> Outcome:
    """Start messages of KEY in QUEUE again, which was paused.

    \b
    Example:
      celery -A shop fair keys resume jobs acme

    Exit status: 0; 1 if the broker cannot be reached.
    """
    return _pause(queue, key, False)


def _pause(queue: str, key: str, paused: bool) -> Outcome:
    tenant = whole_tenant(key, "a tenant is paused as a whole")
    with opened(the_app(), queue) as keys:
        keys.pause(tenant, paused)
    done = "paused" if paused else "resumed"
    document = {"queue": queue, "key": tenant, "paused": paused}
    return Outcome(document, [f"{shown_key(tenant)} is {done} in {queue}"])
