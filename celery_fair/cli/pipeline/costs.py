"""``fair pipeline costs``."""

import json
import os
from pathlib import Path

import click

from celery_fair.cli.pipeline.options import Context, on_warehouse
from celery_fair.cli.pipeline.showing import rows_of, show_json, show_table

__all__ = ["costs"]

_SHOWN = ("task", "cost_key", "n", "mean", "estimate", "credibility", "seconds")


@click.command()
@click.option(
    "--export",
    metavar="PATH",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write the model as JSON, for workers to load.",
)
@click.option(
    "--keys",
    type=click.IntRange(0),
    default=10_000,
    show_default=True,
    help="Cost keys in the model at the most: those with most runs.",
)
@click.option(
    "--limit",
    type=click.IntRange(0),
    default=50,
    show_default=True,
    help="Keys shown at the most: those with most seconds.",
)
@on_warehouse
def costs(context: Context, warehouse: Path, export: Path | None, keys: int, limit: int) -> None:
    """Learn what a message of each cost key takes, in seconds.

    The estimate lies between the key's own mean and its task's: the nearer to its own, the more
    runs it has (credibility), and the more keys of this task differ from each other.

    \b
    Examples:
      python -m celery_fair pipeline costs warehouse
      python -m celery_fair pipeline costs warehouse --export costs.json

    A worker with fair_cost = "runtime" loads the exported file, and again when it changes: it is
    replaced as a whole.
    """
    from pyspark.sql.functions import desc

    from celery_fair.pipeline.gold.costs import model
    from celery_fair.pipeline.publish import write_costs

    made = write_costs(context.warehouse(warehouse), context.say)
    if export is not None:
        context.say(f"writing {export}")
        _replace(export, json.dumps(model(made, keys), indent=1))
    rows = made.orderBy(desc("seconds"), "task", "cost_key").limit(limit).collect()
    if context.as_json:
        show_json([row.asDict() for row in rows])
    else:
        show_table(_SHOWN, rows_of(rows, _SHOWN), "no task has finished")


def _replace(path: Path, text: str) -> None:
    """A worker that reads at this moment sees the old file or the new one."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text)
    draft.replace(path)
