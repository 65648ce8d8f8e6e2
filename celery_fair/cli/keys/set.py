"""``fair set-key``."""

from collections.abc import Sequence
from typing import Any

import click
from celery.exceptions import ImproperlyConfigured

from celery_fair.cli.keys.access import (
    key_argument,
    refuse_idle_burst,
    rules_of,
    shown_key,
    whole_tenant,
)
from celery_fair.cli.options import Outcome, outcome
from celery_fair.operate.text import assignments
from celery_fair.settings import live_key_options

__all__ = ["set_key"]


@click.command("set-key")
@click.argument("queue")
@key_argument
@click.argument("options", nargs=-1, metavar="[OPTION=VALUE]...")
@click.option("--reset", is_flag=True, help="Let it have what the settings say again.")
@outcome("Print an object as JSON.")
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
      celery -A shop fair set-key jobs acme weight=5
      celery -A shop fair set-key jobs acme max_in_flight=20 rate=10/s
      celery -A shop fair set-key jobs acme --reset

    Exit status: 0; 1 if the broker cannot be reached; 2 for an option that cannot be.
    """
    tenant = whole_tenant(key, "parts weigh the same, and have no limits")
    if reset == bool(options):
        raise click.UsageError(
            "write what it is to have, such as weight=5 or max_in_flight=20, or else --reset"
        )
    asked = {} if reset else _checked(queue, options)
    with rules_of(ctx, queue) as (lists, _):
        if reset:
            lists.reset(tenant)
        else:
            if "burst" in asked:
                refuse_idle_burst(queue, lists.look(tenant)[2][0], asked)
            lists.set(tenant, asked)
    has = "what the settings say" if reset else ", ".join(options)
    return Outcome(
        {"queue": queue, "key": tenant, **asked}, [f"{shown_key(tenant)} has {has} in {queue}"]
    )


def _checked(queue: str, words: Sequence[str]) -> dict[str, Any]:
    options = assignments(words, "weight=5 or rate=10/s")
    try:
        return live_key_options(queue, options)
    except ImproperlyConfigured as exc:
        raise click.UsageError(str(exc)) from None
