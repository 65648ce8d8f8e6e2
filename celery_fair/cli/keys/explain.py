"""``fair key``."""

import click

from celery_fair.brokers.keyed.lists import Backlog
from celery_fair.cli.keys.access import key_argument, rules_of, shown_key, whole_tenant
from celery_fair.cli.options import Outcome, outcome

__all__ = ["key", "why"]


@click.command("key")
@key_argument
@click.option("--queue", "-q", required=True, help="A queue of fair_keys.")
@outcome("Print an object as JSON.")
@click.pass_context
def key(ctx: click.Context, key: str, queue: str) -> Outcome:
    """Say what KEY has waiting in a queue, and why that does not start.

    \b
    Examples:
      celery -A shop fair key acme --queue jobs
      celery -A shop fair key acme --queue jobs --json

    Exit status: 0; 1 if the broker cannot be reached.
    """
    tenant = whole_tenant(key, "ask for the tenant, whose share its parts have together")
    with rules_of(ctx, queue) as (lists, apart):
        _, unsorted, [found] = lists.look(tenant)
    document = {**found.as_dict(), "unsorted": unsorted}
    if apart:  # the messages are on another broker
        for name in ("waiting", "parts", "ahead", "before", "started"):
            del document[name]
    return Outcome(document, [why(queue, found, apart), *_more(found, unsorted, apart)])


def why(queue: str, found: Backlog, apart: bool) -> str:
    """Return what a key has waiting in a queue, and why that does not start.

    Arguments:
        apart: its messages are on another broker, and not known.
    """
    who = shown_key(found.tenant)
    if apart:
        held = _reason(found) if found.reason else "nothing keeps it from starting"
        return f"{who} in {queue}: {held}"
    if not found.waiting:
        paused = f"; {_reason(found)}" if found.is_paused else ""
        return f"{who} has nothing waiting in {queue}{paused}"
    return f"{who} has {found.waiting} messages waiting in {queue}: {_reason(found)}"


def _reason(found: Backlog) -> str:
    limits = found.limits
    if found.reason == "paused":
        return "it is paused; fair resume-key ends that"
    if found.reason == "cap":
        return (
            f"{found.running} of {limits.max_in_flight} tasks run, as many as may (max_in_flight)"
        )
    if found.reason == "leash":
        return f"its leash of {limits.rate:g}/s has no token yet (rate)"
    if found.before:
        return f"{found.before} keys come before it"
    return "it is next, when a slot is free"


def _more(found: Backlog, unsorted: int, apart: bool) -> list[str]:
    limits = found.limits
    started = f", {found.started} started in this minute and the one before"
    said = [f"weight {found.weight:g}{'' if apart else started}"]
    if limits.max_in_flight is not None:
        said.append(f"max_in_flight {limits.max_in_flight}, {found.running} run")
    if limits.rate is not None:
        said.append(f"rate {limits.rate:g}/s, burst {limits.burst:g}")
    if unsorted:
        said.append(f"{unsorted} messages are unsorted yet, of whichever key")
    return said
