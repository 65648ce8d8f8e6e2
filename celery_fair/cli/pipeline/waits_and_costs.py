"""``fair pipeline waits`` and ``fair pipeline costs``: what messages waited, and what they took."""

import json
from pathlib import Path

import click

from celery_fair.cli.options import NEW_FILE, Outcome
from celery_fair.cli.pipeline.context import Context, by_key_option, on_warehouse, tabled

_WAITS = "queue, started, p50, p95, p99, longest, broker_p95, worker_p95, skewed"
_WAITS_BY_KEY = _WAITS.replace("queue", "queue, key")
_COSTS = "task, cost_key, n, mean, estimate, credibility, seconds"
_COSTS_BY_KEY = "queue, key, n, mean, longest, seconds, of the queue: part_of_queue, charged"
_LIMIT = 1000


@click.command()
@by_key_option("A row for each queue, or for each key of messages that have one.")
@click.option(
    "--first",
    is_flag=True,
    help="Only messages whose tenant had nothing waiting when they were published.",
)
@on_warehouse
def waits(context: Context, warehouse: Path, by: str, first: bool) -> Outcome:
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
    from celery_fair.pipeline.gold import waits as gold
    from celery_fair.pipeline.publish import publish

    known = context.warehouse(warehouse)
    if by == "key":
        make = gold.first_waits_by_key if first else gold.waits_by_key
        made = publish(known, context.say, make)
        made = made.orderBy("queue", made.started.desc(), "key")
        return tabled(made, _WAITS_BY_KEY, "no task that has a key was started")
    made = publish(known, context.say, gold.first_waits if first else gold.waits)
    made = made.orderBy("queue").limit(_LIMIT)
    of = " of a queue that is shared by key" if first else ""
    return tabled(made, _WAITS, f"no task{of} was started")


@click.command()
@click.option(
    "--export",
    metavar="PATH",
    type=NEW_FILE,
    help="Write the model as JSON, for workers to load.",
)
@by_key_option("A row for each task and cost key, or what each tenant's messages took.")
@on_warehouse
def costs(context: Context, warehouse: Path, export: Path | None, by: str) -> Outcome:
    """Learn what a message of each cost key takes, in seconds.

    The estimate lies between the key's own mean and its task's: the more runs the key has
    (credibility), and the more the task's keys differ from each other, the nearer to its own.

    \b
    Examples:
      python -m celery_fair pipeline costs warehouse
      python -m celery_fair pipeline costs warehouse --export costs.json
      python -m celery_fair pipeline costs warehouse --by key

    A worker with fair_cost = "runtime" loads the exported file, and loads it again when it changes;
    it is replaced as a whole.

    With --by key, what each tenant of queues that are shared by key (fair_keys) has used. Of more
    than 1000 rows, those with most seconds are shown.
    """
    from pyspark.sql.functions import desc

    from celery_fair.pipeline.gold import costs as gold
    from celery_fair.pipeline.publish import publish
    from celery_fair.pipeline.whole_file import whole_file

    known = context.warehouse(warehouse)
    if by == "key":
        made = publish(known, context.say, gold.costs_by_key)
        order, columns = ("queue", "tenant"), _COSTS_BY_KEY
        none = "no task that has a key has finished"
    else:
        made = publish(known, context.say, gold.costs)
        order, columns = ("task", "cost_key"), _COSTS
        none = "no task has finished"
        if export is not None:
            context.say(f"writing {export}")
            with whole_file(export) as file:
                file.write(json.dumps(gold.model(made), indent=1))
    return tabled(made.orderBy(desc("seconds"), *order).limit(_LIMIT), columns, none)
