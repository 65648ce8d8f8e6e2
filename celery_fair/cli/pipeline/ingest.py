"""``fair pipeline ingest``."""

from pathlib import Path

import click

from celery_fair.cli.pipeline.options import Context, with_spark
from celery_fair.cli.pipeline.showing import show_json

__all__ = ["ingest"]


@click.command()
@click.argument("logs", type=click.Path(file_okay=False, path_type=Path))
@click.argument("warehouse", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--include-open",
    is_flag=True,
    help="Read the files too that workers are still writing; they are read again when sealed.",
)
@with_spark
def ingest(context: Context, logs: Path, warehouse: Path, include_open: bool) -> None:
    """Read event logs from LOGS into WAREHOUSE.

    Reads what is new below LOGS: sealed files, *.jsonl, at any depth. Running it again reads no
    file twice; copies of files, and records that come late, do no harm. A line that is no record,
    torn or garbage, goes to the table `quarantine` with its file and the reason.

    A new version of the warehouse is seen by others when it is complete, not before; whatever ends
    this command in the middle leaves the old one. On a cluster both folders must be reachable under
    the same paths from every machine.

    \b
    Examples:
      python -m celery_fair pipeline ingest /var/log/celery-fair warehouse
      python -m celery_fair pipeline ingest logs warehouse --include-open --json

    Exit status: 0, also if lines were quarantined; 1 if nothing could be ingested.
    """
    from celery_fair.pipeline.ingest import ingest as read

    done = read(context.warehouse(warehouse), logs, include_open, context.say)
    if context.as_json:
        show_json(done.as_dict())
        return
    click.echo(
        f"version {done.version}: {done.events} new events from {done.lines} lines of"
        f" {done.files} new files and {done.open_files} open ones"
    )
    if done.duplicates:
        click.echo(f"{done.duplicates} records were here already")
    for reason, count in sorted(done.quarantined.items()):
        click.echo(f"quarantined: {count} × {reason}")
