"""``fair pipeline waits``."""

from pathlib import Path

import click

from celery_fair.cli.options import Outcome
from celery_fair.cli.pipeline.options import Context, on_warehouse, tabled

__all__ = ["waits"]

_SHOWN = ("queue", "started", "p50", "p95", "p99", "longest", "broker_p95", "worker_p95", "skewed")
_LIMIT = 1000


@click.command()
@on_warehouse
def waits(context: Context, warehouse: Path) -> Outcome:
    """Show how long messages waited, from their publication to their start.

    \b
    p50, p95, p99  quantiles of the wait, in seconds
    broker_p95     of the part before the worker had the message
    worker_p95     of the part after
    skewed         messages that were started before they were published, by different clocks;
                   they count like the others

    The time of publication is a header that the worker's app adds when it publishes. Messages of
    other publishers have none, and count among the started only.

    \b
    Examples:
      python -m celery_fair pipeline waits warehouse
      python -m celery_fair pipeline waits warehouse --json
    """
    from celery_fair.pipeline.publish import write_waits

    made = write_waits(context.warehouse(warehouse), context.say)
    return tabled(made.orderBy("queue").limit(_LIMIT), _SHOWN, "no task was started")
