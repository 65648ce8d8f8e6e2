"""``python -m celery_fair pipeline seal``."""

import sys
from pathlib import Path

import click

from celery_fair.eventlog import Policy, sweep
from celery_fair.eventlog.log_file import OPEN

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
      python -m celery_fair pipeline seal /var/log/celery-fair

    Exit status: 0, also if there is no log, as where no worker was started; 1 if LOGS is the folder
    of a host, whose open files are left; 2 if it is no folder.
    """
    if astray := sorted(logs.glob(f"{OPEN}*.jsonl")):
        raise click.ClickException(
            f"{logs} itself has open files, as {astray[0].name}, which are not sealed there: give"
            " the folder that fair_event_log names, in which each host has one"
        )
    sealed = sweep(Policy(logs, limit=sys.maxsize))
    click.echo(f"sealed {sealed} files of processes that are gone")
    if left := sorted(logs.glob(f"*/{OPEN}*.jsonl")):
        click.echo(
            f"{len(left)} are left open, as {left[0]}: their processes live, or they may not be"
            " written here, or another host has written them within the hour",
            err=True,
        )
    elif not any(logs.glob("*/*.jsonl*")):
        click.echo(
            f"no host has a folder with an event log in {logs}: if a worker has run, give the"
            " folder that fair_event_log names",
            err=True,
        )
