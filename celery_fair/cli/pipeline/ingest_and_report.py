"""``fair pipeline ingest`` and ``fair pipeline report``: a warehouse is filled, and told of."""

import sys
from dataclasses import asdict
from pathlib import Path

import click

from celery_fair.cli.options import FOLDER, INTERVAL, NEW_FILE, Outcome
from celery_fair.cli.pipeline.context import Context, on_warehouse, premises, with_spark
from celery_fair.eventlog import Policy, sweep
from celery_fair.eventlog.log_file import OPEN
from celery_fair.operate.text import escaped


@click.command()
@click.argument("logs", type=FOLDER)
@click.argument("warehouse", type=FOLDER)
@click.option(
    "--include-open",
    is_flag=True,
    help="Also read files that workers are still writing; they are read again once sealed.",
)
@with_spark
def ingest(context: Context, logs: Path, warehouse: Path, include_open: bool) -> Outcome:
    """Read event logs from LOGS into WAREHOUSE.

    Reads what is new below LOGS: sealed files, *.jsonl, also packed or
    compressed ones (*.jsonl.gz, *.jsonl.zst), at any depth. Running it again reads no
    file twice; copies of files, and records that come late, do no harm. A line that is not a
    record, but torn or garbage, goes to the table `quarantine` with its file and the reason. A
    compressed file that is cut or broken is read up to there, and named; nothing is taken for
    proven that rests on its rest. Copy it again under its name, and it is read whole.

    Others see a new version of the warehouse when it is complete, and not before; if this command
    is cut short, the old one stays. On a cluster every machine must reach both folders under the
    same paths.

    \b
    Examples:
      python -m celery_fair pipeline ingest /var/log/celery-fair warehouse
      python -m celery_fair pipeline ingest logs warehouse --include-open --json

    Exit status: 0, also if some lines were quarantined; 1 if no line was a record, or LOGS has no
    files to read.
    """
    from celery_fair.pipeline.ingest import ingest as read
    from celery_fair.pipeline.reading import check

    check(logs)
    there = context.warehouse(warehouse, logs)
    done = read(there, logs, include_open, context.say)
    news = (
        f"version {done.version}: {done.events} new events from {done.lines} lines of"
        f" {done.files} new files" + (f" and {done.open_files} open ones" if include_open else "")
    )
    lines = [news]
    if done.duplicates:
        lines.append(f"{done.duplicates} records were here already")
    lines += [f"{escaped(path)} breaks off: what it lost is in doubt" for path in done.broken]
    lines += [
        f"the clock of {escaped(node)} was not set at first, or is ahead: when it did what it did"
        " then is not known, and it counts from the time when its clock is right"
        for node in done.unset_clocks
    ]
    lines += [f"quarantined: {n} × {reason}" for reason, n in sorted(done.quarantined.items())]
    bad = bool(done.quarantined or done.broken)
    return Outcome(asdict(done), lines, good=not bad or done.events + done.duplicates > 0)


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
    warehouse: Path,
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
    document = {"path": str(html), "bytes": size, "verdicts": shown["verdicts"]}
    return Outcome(document, [f"{html}: {size / 1024:.0f} KiB"])


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
