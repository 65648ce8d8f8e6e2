"""``fair pipeline waits``."""

from pathlib import Path

import click

from celery_fair.cli.options import Outcome
from celery_fair.cli.pipeline.context import Context
from celery_fair.cli.pipeline.options import by_key_option, on_warehouse, tabled

__all__ = ["waits"]

_SHOWN = ("queue", "started", "p50", "p95", "p99", "longest", "broker_p95", "worker_p95", "skewed")
_LIMIT = 1000


@click.command()
@by_key_option("A row for each queue, or for each key of messages that have one.")
@click.option(
    "--first",
    is_flag=True,
    help="Only messages whose tenant had nothing waiting when they were published.",
)
@on_warehouse
def waits(context: Context, warehouse: Path | str, by: str, first: bool) -> Outcome:
    """Show how long messages waited, from their publication to their start.

    \b
    p50, p95, p99  quantiles of the wait, in seconds
    broker_p95     of the part before the worker had the message
    worker_p95     of the part after
    skewed         messages that were started before they were published, by different clocks;
                   they count like the others

    The time of publication is a header that the worker's app adds when it publishes. Messages of
    other publishers have none, and count among the started only.

    With --by key there is a row for each key of messages that have one (fair_keys: a tenant, or
    tenant/part); of more than 1000, those with the most starts.

    With --first, only messages of queues that are shared by key, and of those only such as their
    tenant had nothing else waiting: what a quiet tenant waits beside a loud one.

    \b
    Examples:
      python -m celery_fair pipeline waits warehouse
      python -m celery_fair pipeline waits warehouse --json
      python -m celery_fair pipeline waits warehouse --by key
      python -m celery_fair pipeline waits warehouse --first
    """
    from celery_fair.pipeline import publish

    known = context.warehouse(warehouse)
    none = (
        "no task of a queue that is shared by key was started" if first else "no task was started"
    )
    if by == "queue":
        write = publish.write_first_waits if first else publish.write_waits
        made = write(known, context.say).orderBy("queue").limit(_LIMIT)
        return tabled(made, _SHOWN, none)
    write = publish.write_first_waits_by_key if first else publish.write_waits_by_key
    made = write(known, context.say)
    made = made.orderBy("queue", made.started.desc(), "key")
    return tabled(made, ("queue", "key", *_SHOWN[1:]), "no task that has a key was started")
