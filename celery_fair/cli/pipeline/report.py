"""``fair pipeline report``."""

from pathlib import Path

import click

from celery_fair.cli.pipeline.options import Context, on_warehouse
from celery_fair.cli.pipeline.showing import show_json

__all__ = ["report"]


@click.command()
@click.option(
    "--interval",
    metavar="SECONDS",
    type=click.FloatRange(0, min_open=True),
    help="Length of the chart's intervals.  [default: some hundredth of the whole]",
)
@on_warehouse
@click.argument("html", type=click.Path(dir_okay=False, writable=True, path_type=Path))
def report(context: Context, warehouse: Path, html: Path, interval: float | None) -> None:
    """Write a report over WAREHOUSE to the file HTML.

    The file has everything in it and loads nothing: shares against targets over time, waits, what
    kept queues from being served, what became of each message, dead letters and costs.

    \b
    Examples:
      python -m celery_fair pipeline report warehouse report.html
      python -m celery_fair pipeline report warehouse report.html --interval 300 --quiet
    """
    from celery_fair.pipeline.report.figures import figures
    from celery_fair.pipeline.report.page import page

    shown = figures(context.warehouse(warehouse), interval, context.say)
    html.write_text(page(shown), encoding="utf-8")
    size = html.stat().st_size
    if context.as_json:
        show_json({"path": str(html), "bytes": size, "verdicts": shown.verdicts})
    else:
        click.echo(f"{html}: {size / 1024:.0f} KiB")
