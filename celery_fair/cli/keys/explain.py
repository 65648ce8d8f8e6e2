"""``fair key``."""

from contextlib import closing
from typing import Any

import click

from celery_fair.brokers.broker import broker_of
from celery_fair.brokers.keyed.lists import Backlog
from celery_fair.cli.keys.access import (
    connected,
    key_argument,
    lists_on,
    shown_key,
    store_asked,
    whole_tenant,
)
from celery_fair.cli.keys.lanes import look
from celery_fair.cli.keys.of_workers import Crew
from celery_fair.cli.options import Outcome, outcome
from celery_fair.settings import Settings

__all__ = ["found_of", "key", "why"]


@click.command("key")
@key_argument
@click.option("--queue", "-q", required=True, help="A queue of fair_keys.")
@outcome("Print an object as JSON.")
@click.pass_context
def key(ctx: click.Context, key: str, queue: str) -> Outcome:
    """Say what KEY has waiting in a queue, and why that does not start.

    On RabbitMQ what waits in lanes is counted that workers know to be KEY's; see `fair keys`.

    \b
    Examples:
      celery -A shop fair key acme --queue jobs
      celery -A shop fair key acme --queue jobs --json

    Exit status: 0; 1 if the broker cannot be reached.
    """
    tenant = whole_tenant(key, "ask for the tenant, whose share its parts have together")
    with connected(ctx, queue) as (app, settings, connection):
        found, unsorted = found_of(app, settings, connection, queue, tenant)
    document = {**found.as_dict(), "unsorted": unsorted}
    return Outcome(document, [why(queue, found), *_more(found, unsorted)])


def found_of(
    app: Any, settings: Settings, connection: Any, queue: str, tenant: str
) -> tuple[Backlog, int]:
    """Return what is known of a key, and how many messages wait of which that is not known.

    Raises:
        click.ClickException: a store of keys does not answer.
    """
    if broker_of(connection).keeps_tags:
        _, unsorted, [found] = lists_on(connection, settings, queue).look(tenant)
        return found, unsorted
    waits = look(app, settings, connection, queue)
    with closing(Crew(app, queue)) as crew, store_asked():
        return crew.of_tenant(settings, waits, tenant)


def why(queue: str, found: Backlog) -> str:
    """Return what a key has waiting in a queue, and why that does not start."""
    who = shown_key(found.tenant)
    if not found.waiting:
        held = f"; {_reason(found)}" if found.reason else ""
        return f"{who} has nothing waiting in {queue}{held}"
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
    if found.before is None:
        return "its turn comes by its tag, as each worker has it"
    if found.before:
        return f"{found.before} keys come before it"
    return "it is next, when a slot is free"


def _more(found: Backlog, unsorted: int) -> list[str]:
    limits = found.limits
    said = [f"weight {found.weight:g}, {found.started} started in this minute and the one before"]
    if limits.max_in_flight is not None:
        said.append(f"max_in_flight {limits.max_in_flight}, {found.running} run")
    if limits.rate is not None:
        said.append(f"rate {limits.rate:g}/s, burst {limits.burst:g}")
    if unsorted:
        said.append(f"{unsorted} messages are unsorted yet, of whichever key")
    return said
