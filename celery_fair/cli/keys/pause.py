"""``fair pause-key`` and ``fair resume-key``."""

import click

from celery_fair.cli.keys.access import key_argument, rules_of, shown_key, whole_tenant
from celery_fair.cli.options import Outcome, outcome

__all__ = ["pause_key", "resume_key"]

_PARTS = "a tenant is paused as a whole"


@click.command("pause-key")
@click.argument("queue")
@key_argument
@outcome("Print an object as JSON.")
@click.pass_context
def pause_key(ctx: click.Context, queue: str, key: str) -> Outcome:
    """Start no more messages of KEY in QUEUE, on any worker, until it is resumed.

    What runs goes on, and what comes in waits. The broker keeps it.

    \b
    Example:
      celery -A shop fair pause-key jobs acme

    Exit status: 0; 1 if the broker cannot be reached.
    """
    return _pause(ctx, queue, key, True)


@click.command("resume-key")
@click.argument("queue")
@key_argument
@outcome("Print an object as JSON.")
@click.pass_context
def resume_key(ctx: click.Context, queue: str, key: str) -> Outcome:
    """Start messages of KEY in QUEUE again, which was paused.

    \b
    Example:
      celery -A shop fair resume-key jobs acme

    Exit status: 0; 1 if the broker cannot be reached.
    """
    return _pause(ctx, queue, key, False)


def _pause(ctx: click.Context, queue: str, key: str, paused: bool) -> Outcome:
    tenant = whole_tenant(key, _PARTS)
    with rules_of(ctx, queue) as (lists, _):
        lists.pause(tenant, paused)
    done = "paused" if paused else "resumed"
    document = {"queue": queue, "key": tenant, "paused": paused}
    return Outcome(document, [f"{shown_key(tenant)} is {done} in {queue}"])
