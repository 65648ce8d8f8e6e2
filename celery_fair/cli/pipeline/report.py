"""``fair pipeline report``."""

from pathlib import Path

import click

from celery_fair.cli.options import INTERVAL, NEW_FILE, Outcome
from celery_fair.cli.pipeline.context import Context
from celery_fair.cli.pipeline.options import on_warehouse, premises

__all__ = ["report"]


@click.command()
@click.option(
    "--interval",
    type=INTERVAL,
    help="Length of the intervals that are judged and drawn.  [default: some hundredth of the"
    " whole; none below 60 s is judged]",
)
@premises
@on_warehouse
@click.argument("html", type=NEW_FILE)
def report(
    context: Context,
    warehouse: Path | str,
    html: Path,
    interval: float | None,
    complete_since: float | None,
    redelivered_within: float | None,
) -> Outcome:
    """Write a report over WAREHOUSE to the file HTML.

    The file has everything in it and loads nothing: shares against targets over time, waits, what
    kept queues from being served, what became of each message, dead letters and costs. What
    became of them is audited anew: give the options that you give audit. Shares are judged over
    its own interval, and published so: to see the verdicts of fairness, give the same --interval.

    \b
    Examples:
      python -m celery_fair pipeline report warehouse report.html
      python -m celery_fair pipeline report warehouse report.html --interval 300 --quiet
    """
    from celery_fair.pipeline.report.figures import figures
    from celery_fair.pipeline.report.page import page
    from celery_fair.pipeline.whole_file import whole_file

    there = context.warehouse(warehouse)
    shown = figures(there, interval, context.say, complete_since, redelivered_within)
    text = page(shown)
    with whole_file(html) as file:
        file.write(text)
    size = len(text.encode())
    document = {"path": str(html), "bytes": size, "verdicts": shown.verdicts}
    return Outcome(document, [f"{html}: {size / 1024:.0f} KiB"])
