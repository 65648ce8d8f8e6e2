"""``fair drop-key``."""

import json
import sys
from collections.abc import Mapping
from socket import gethostname
from time import monotonic
from typing import Any

import click
from kombu.utils.json import dumps

from celery_fair.brokers.keyed.lists import KeyedLists
from celery_fair.brokers.mover import dead_payload, raw_payload
from celery_fair.brokers.redis import Commands
from celery_fair.cli.interrupt import stoppable
from celery_fair.cli.keys.access import Access, access_to, key_argument, shown_key
from celery_fair.cli.options import Outcome, outcome
from celery_fair.core.fair_key import read_key
from celery_fair.dead_letters.death import dead_letter_queue, death_headers

__all__ = ["drop_key"]

_SORTING = 30.0
"""Seconds to sort what was published, in which messages of the key may be, at the most."""


@click.command("drop-key")
@click.argument("queue")
@key_argument
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Say how many messages that would be.")
@outcome("Print an object as JSON.")
@click.pass_context
def drop_key(ctx: click.Context, queue: str, key: str, yes: bool, dry_run: bool) -> Outcome:
    """Move what KEY has waiting in QUEUE to the dead letters, those that came first at first.

    They are kept there: `fair dead-letters replay --all --reason dropped` has them back, and
    `fair dead-letters purge` deletes them. What runs goes on, and what is published from now on
    starts as before: pause the key first, if it should not. A tenant's parts are dropped with it;
    written tenant/part, the part alone. --no-key in place of KEY means messages that have none.

    It asks first; where standard input is no terminal, --yes is needed.

    \b
    Examples:
      celery -A shop fair drop-key jobs acme --dry-run
      celery -A shop fair drop-key jobs acme --yes
      celery -A shop fair drop-key jobs acme/user-7

    Exit status: 0; 1 if the broker cannot be reached, or not all was dropped.
    """
    tenant, part = read_key(key)
    if not (dry_run or yes or sys.stdin.isatty()):
        raise click.UsageError("drop-key moves messages away; say --yes, or --dry-run to look")
    with access_to(ctx, queue) as access:
        lists = access.lists
        lists.sort(until=monotonic() + _SORTING)
        _adopt(lists)
        parts = [each for each in lists.parts(tenant) if part in {"", each}]
        waiting = {each: lists.waiting_of(tenant, each) for each in parts}
        count = sum(waiting.values())
        document = {"queue": queue, "key": key, "waiting": count, "dropped": 0}
        if dry_run or not count:
            return Outcome(
                document, [f"{shown_key(key)} has {count or 'no'} messages waiting in {queue}"]
            )
        if not yes:
            click.confirm(f"Move {count} messages to the dead letters?", abort=True, err=True)
        dropped, left = _dropped(access, queue, tenant, waiting)
    lines = [f"{dropped} messages of {shown_key(key)} are dead letters now"]
    if left:
        lines.append(f"{left} are still waiting, as this was interrupted; say it again")
    return Outcome({**document, "dropped": dropped, "left": left}, lines, good=not left)


def _adopt(lists: KeyedLists) -> None:
    """Find lists that no tag is kept of, as after a fail-over."""
    cursor: int | None = 0
    while cursor is not None:
        cursor = lists.adopt(cursor)


def _dropped(
    access: Access, queue: str, tenant: str, waiting: Mapping[str, int]
) -> tuple[int, int]:
    """Move messages of a tenant's parts; return how many, and how many not, if interrupted.

    Arguments:
        waiting: how many, by part: more may be published meanwhile.
    """
    lists, dropped = access.lists, 0
    dead_letter_queue(access.dead_letters)(access.channel).declare()
    to = Commands(access.channel).lists(access.dead_letters)[0]

    def told(raw: bytes) -> str:
        return str(dumps(_letter(access, queue, raw)))

    everything = sum(waiting.values())
    with (
        stoppable() as stop,
        click.progressbar(length=everything, label="dropping", file=sys.stderr) as bar,
    ):
        for part, count in waiting.items():
            left = count
            while left > 0 and not stop():
                moved = lists.drop(tenant, part, to, told)
                left = left - moved if moved else min(left, lists.waiting_of(tenant, part))
                dropped += moved
                bar.update(moved)
        return dropped, sum(lists.waiting_of(tenant, part) for part in waiting) if stop() else 0


def _letter(access: Access, queue: str, raw: bytes) -> Any:
    try:
        payload = json.loads(raw)
        info = payload["properties"].get("delivery_info")
        again = bool((payload.get("headers") or {}).get("redelivered"))
        headers = death_headers(info, queue, gethostname(), "dropped", "fair drop-key", again)
        return dead_payload(payload, headers, access.dead_letters, queue)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):  # it is no message
        headers = death_headers({}, queue, gethostname(), "dropped", "fair drop-key", True)
        return raw_payload(access.channel, raw, headers, access.dead_letters)
