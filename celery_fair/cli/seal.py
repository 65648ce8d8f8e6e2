"""``python -m celery_fair seal``."""

import sys
from pathlib import Path

import click

from celery_fair.eventlog import Policy, sweep
from celery_fair.eventlog.log_file import OPEN

__all__ = ["seal"]

_LOGS = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command()
@click.argument("logs", type=_LOGS)
def seal(logs: Path) -> None:
    """Seal the files of the event log LOGS that killed processes have left open.

    Any worker of the same host does so all the time; this is for where none will come any more, as
    in a pod that ends. Files of processes that live are left alone. The last record of the others
    says that the process is dead, so that nothing that it may have done remains in doubt.

    \b
    Example:
      python -m celery_fair seal /var/log/celery-fair

    Exit status: 0; 2 if LOGS is no folder.
    """
    sealed = sweep(Policy(logs, limit=sys.maxsize))
    click.echo(f"sealed {sealed} files of processes that are gone")
    if left := sorted(logs.glob(f"*/{OPEN}*.jsonl")):
        click.echo(
            f"{len(left)} are left open, as {left[0]}: their processes live, or they may not be"
            " written here, or another host has written them within the hour",
            err=True,
        )
