"""``fair set-key``."""

from collections.abc import Sequence

import click
from celery.exceptions import ImproperlyConfigured

from celery_fair.cli.keys.access import lists_of
from celery_fair.cli.options import Outcome, outcome
from celery_fair.core.fair_key import read_key
from celery_fair.settings.keys import checked_weight

__all__ = ["set_key"]


@click.command("set-key")
@click.argument("queue")
@click.argument("key")
@click.argument("options", nargs=-1, metavar="[weight=N]")
@click.option("--reset", is_flag=True, help="Let it have what the settings say again.")
@outcome("Print an object as JSON.")
@click.pass_context
def set_key(
    ctx: click.Context, queue: str, key: str, options: Sequence[str], reset: bool
) -> Outcome:
    """Change what KEY has of QUEUE, for all workers, at once.

    \b
    weight=N   its share is N by the sum of the weights of all keys that have something waiting

    The broker keeps it: it also holds for what is waiting already, and for workers that start
    later, until it is set again or --reset. The key is written as in the header x-fair-key.

    \b
    Examples:
      celery -A shop fair set-key jobs acme weight=5
      celery -A shop fair set-key jobs acme --reset

    Exit status: 0; 1 if the broker cannot be reached; 2 for an option that cannot be.
    """
    tenant, part = read_key(key)
    if part:
        raise click.UsageError(
            f"{key!r} is a part of {tenant!r}; parts weigh the same, their tenant has the weight"
        )
    weight = None if reset else _weight(options)
    if reset and options:
        raise click.UsageError("--reset takes no options")
    with lists_of(ctx, queue) as lists:
        lists.set_weight(tenant, weight)
    said = "what the settings say" if weight is None else f"weight={weight:g}"
    return Outcome(
        {"queue": queue, "key": tenant, "weight": weight}, [f"{tenant} has {said} in {queue}"]
    )


def _weight(options: Sequence[str]) -> float:
    if len(options) != 1 or not options[0].startswith("weight="):
        raise click.UsageError(
            f"write weight=N, such as weight=5, or --reset, not {' '.join(options)!r}"
        )
    text = options[0].removeprefix("weight=")
    try:
        return checked_weight("weight", float(text))
    except ValueError:
        raise click.UsageError(f"weight={text!r}: that is no number") from None
    except ImproperlyConfigured as exc:
        raise click.UsageError(str(exc)) from None
