"""``fair pipeline ingest``."""

from pathlib import Path

import click

from celery_fair.cli.options import Outcome
from celery_fair.cli.pipeline.context import Context
from celery_fair.cli.pipeline.options import PLACE, one_writer_option, with_spark
from celery_fair.operate.text import escaped

__all__ = ["ingest"]


@click.command()
@click.argument("logs", type=PLACE)
@click.argument("warehouse", type=PLACE)
@click.option(
    "--include-open",
    is_flag=True,
    help="Also read files that workers are still writing; they are read again once sealed.",
)
@with_spark
@one_writer_option
def ingest(
    context: Context, logs: Path | str, warehouse: Path | str, include_open: bool
) -> Outcome:
    """Read event logs from LOGS into WAREHOUSE.

    Reads what is new below LOGS: sealed files, *.jsonl, also packed or
    compressed ones (*.jsonl.gz, *.jsonl.zst), at any depth. Running it again reads no
    file twice; copies of files, and records that come late, do no harm. A line that is not a
    record, but torn or garbage, goes to the table `quarantine` with its file and the reason. A
    compressed file that is cut or broken is read up to there, and named; nothing is taken for
    proven that rests on its rest. Copy it again under its name, and it is read whole.

    Others see a new version of the warehouse when it is complete, and not before; if this command
    is cut short, the old one stays. On a cluster every machine must reach both folders under the
    same paths. On a terminal a bar shows how much has been read.

    Both may be URIs of any file system that this Spark reads, such as s3a://bucket/logs; its
    settings and credentials are given by --conf spark.hadoop.fs.….

    \b
    Examples:
      python -m celery_fair pipeline ingest /var/log/celery-fair warehouse
      python -m celery_fair pipeline ingest logs warehouse --include-open --json
      python -m celery_fair pipeline ingest s3a://bucket/logs hdfs://node/warehouse

    Exit status: 0, also if some lines were quarantined; 1 if no line was a record, or LOGS has no
    files to read.
    """
    from celery_fair.pipeline.ingest import ingest as read
    from celery_fair.pipeline.reading import check

    if isinstance(logs, Path):  # else nobody knows before Spark is started
        check(context.store(logs))
    there = context.warehouse(warehouse, logs)
    done = read(there, context.store(logs), include_open, context.say, context.bar())
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
    return Outcome(done.as_dict(), lines, good=not bad or done.events + done.duplicates > 0)
