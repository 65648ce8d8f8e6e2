"""``fair pipeline costs``."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from celery_fair.cli.options import COUNT, NEW_FILE, Outcome, table
from celery_fair.cli.pipeline.context import Context
from celery_fair.cli.pipeline.options import by_key_option, on_warehouse, percent, tabled
from celery_fair.pipeline.key_names import named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["costs"]

_SHOWN = ("task", "cost_key", "n", "mean", "estimate", "credibility", "seconds")
_BY_KEY = ("queue", "key", "n", "mean", "longest", "seconds", "of the queue", "charged")


@click.command()
@click.option(
    "--export",
    metavar="PATH",
    type=NEW_FILE,
    help="Write the model as JSON, for workers to load.",
)
@click.option(
    "--keys",
    type=COUNT,
    default=10_000,
    help="Cost keys that the model may have: those with most runs.",
)
@click.option(
    "--limit", type=COUNT, default=50, help="Show no more keys than this: those with most seconds."
)
@by_key_option("A row for each task and cost key, or what each tenant's messages took.")
@on_warehouse
def costs(
    context: Context, warehouse: Path | str, export: Path | None, keys: int, limit: int, by: str
) -> Outcome:
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

    With --by key, what each tenant of queues that are shared by key (fair_keys) has used: of more
    than 1000 in a queue, those with most seconds, and the others as one.
    """
    from pyspark.sql.functions import desc

    from celery_fair.pipeline.gold.costs import model
    from celery_fair.pipeline.publish import write_costs
    from celery_fair.pipeline.whole_file import whole_file

    if by == "key":
        return _by_key(context, warehouse, limit)
    made = write_costs(context.warehouse(warehouse), context.say)
    if export is not None:
        context.say(f"writing {export}")
        with whole_file(export) as file:
            file.write(json.dumps(model(made, keys), indent=1))
    rows = made.orderBy(desc("seconds"), "task", "cost_key").limit(limit)
    found = tabled(rows, _SHOWN, _none("no task has finished", limit))
    return found._replace(lines=[*found.lines, *_left_out(found.document, made, limit)])


def _by_key(context: Context, warehouse: Path | str, limit: int) -> Outcome:
    from pyspark.sql.functions import desc

    from celery_fair.pipeline.publish import write_costs_by_key

    made = write_costs_by_key(context.warehouse(warehouse), context.say)
    made = made.orderBy(desc("seconds"), "queue", "tenant")
    rows = [row.asDict() for row in made.limit(limit).collect()]
    shown = ("n", "mean", "longest", "seconds")
    lines = (
        [
            *(row["queue"], named(row), *(row[name] for name in shown)),
            *(percent(row["part_of_queue"]), row["charged"]),
        ]
        for row in rows
    )
    shown_lines = table(_BY_KEY, lines, _none("no task that has a key has finished", limit))
    return Outcome(rows, [*shown_lines, *_left_out(rows, made, limit)])


def _left_out(rows: list[Any], made: "DataFrame", limit: int) -> Iterator[str]:
    if rows and len(rows) == limit and (more := made.count() - limit):
        yield f"and {more} more: --limit"


def _none(why: str, limit: int) -> str:
    """What is to be said where no row is shown."""
    return why if limit else "no row is shown, with --limit 0"
