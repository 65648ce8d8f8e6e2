"""``fair pipeline audit``."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from celery_fair.cli.options import COUNT, NEW_FILE, Outcome
from celery_fair.cli.pipeline.context import (
    Context,
    Row,
    by_key_option,
    collected,
    laid_out,
    on_warehouse,
    premises,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from celery_fair.pipeline.warehouse import Warehouse

_SHOWN = ("id", "retries", "verdict", "task", "queue", "started_at", "rejected_at", "node", "why")
_LISTED = "id, retries, verdict, task, queue, started: started_at, rejected: rejected_at, node, why"
_UNKNOWN = "UNKNOWN: attempts, why, node, pid, boot, since, until"
_DOUBT = ("why", "node", "pid", "boot", "since", "until")
_LIMIT = 1000


def _verdicts(_ctx: click.Context, _param: click.Parameter, value: str) -> set[str]:
    from celery_fair.pipeline.gold.audit import VERDICTS

    wanted = {word.strip().upper().replace("-", "_") for word in value.split(",") if word.strip()}
    if unknown := wanted - set(VERDICTS):
        known = ", ".join(verdict.lower() for verdict in VERDICTS)
        said = ", ".join(sorted(name.lower() for name in unknown))
        raise click.BadParameter(f"{said} is no verdict; there are {known}")
    return wanted


@click.command()
@click.option(
    "--fail-on",
    metavar="VERDICTS",
    default="",
    show_default=False,
    callback=_verdicts,
    help="Exit with 1 if any of these is found; separate them by commas.",
)
@click.option("--non-repeatable", is_flag=True, help="Leave out tasks that may run twice.")
@premises
@click.option(
    "--verdict",
    "only",
    default="",
    show_default=False,
    metavar="VERDICTS",
    callback=_verdicts,
    help="List these.  [default: all but finished and running]",
)
@click.option("--limit", type=COUNT, default=50, help="List no more attempts than this.")
@click.option(
    "--ids-out",
    metavar="PATH",
    type=NEW_FILE,
    help="Write which dead letters are replayable to a file, for dead-letters replay --provable.",
)
@by_key_option("List attempts, or count the verdicts of each tenant.")
@on_warehouse
def audit(
    context: Context,
    warehouse: Path,
    fail_on: set[str],
    non_repeatable: bool,
    complete_since: float | None,
    redelivered_within: float | None,
    only: set[str],
    limit: int,
    ids_out: Path | None,
    by: str,
) -> Outcome:
    """Say what became of each message: started twice, lost, provably never started.

    \b
    DUPLICATE      started twice
    LOST           started, not finished, and its process is gone
    UNKNOWN        the log does not have what a verdict needs
    DEAD_LETTERED  rejected, and started before, or maybe
    REPLAYABLE     rejected, and provably never started: it may be replayed
    RUNNING        started, not finished, its process is alive
    FINISHED       started once and finished

    A start is proven absent, or the only one, if no process that consumed the queue at the time can
    have begun it without leaving a record here: no gap in its log, and a log up to the rejection or
    the process's end. The premise is that every worker of the queue writes its log and that all
    logs are ingested; with --complete-since, messages published before are UNKNOWN. What is UNKNOWN
    has its reason, and what was said otherwise by the last audit is listed.

    \b
    Examples:
      python -m celery_fair pipeline audit warehouse
      python -m celery_fair pipeline audit warehouse --non-repeatable --fail-on duplicate,lost
      python -m celery_fair pipeline audit warehouse --ids-out replayable.jsonl
      python -m celery_fair pipeline audit warehouse --by key

    Exit status: 0; 1 if there is what --fail-on names.
    """
    from pyspark.sql.functions import col

    from celery_fair.pipeline.gold.audit import VERDICTS, WELL, audit_by_key, worst_first
    from celery_fair.pipeline.publish import publish, publish_audit

    there = context.warehouse(warehouse)
    every = publish_audit(there, context.say, complete_since, redelivered_within)
    audited = every.where("repeatable is null or not repeatable") if non_repeatable else every
    counted = {row["verdict"]: row["count"] for row in audited.groupBy("verdict").count().collect()}
    counts = {verdict: counted.get(verdict, 0) for verdict in VERDICTS}
    if ids_out is not None:
        _write_ids(audited, ids_out)
    good = not any(counts[name] for name in fail_on)
    if by == "key":
        made = publish(there, context.say, audit_by_key, audit=every)
        return _by_key(audit_by_key(audited) if non_repeatable else made, counts, good)
    verdict = col("verdict")
    listed = audited.where(verdict.isin(*only) if only else ~verdict.isin(*WELL))
    rows = collected(listed.orderBy(worst_first(), "id", "retries").select(*_SHOWN).limit(limit))
    more = sum(counts[name] for name in only or counts.keys() - WELL) - len(rows)
    summary = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    doubts, changed = _doubts(audited, limit), _changed(there)
    return Outcome(
        {
            "verdicts": counts,
            "attempts": rows,
            "more": more,
            "unknown": doubts,
            "changed": changed,
        },
        [
            *laid_out(rows, _LISTED, "no attempt is listed"),
            *([f"and {more} more: --limit, --verdict"] if rows and more else []),
            *([summary] if summary else []),
            *(laid_out(doubts, _UNKNOWN, "") if doubts else []),
            *(
                f"since the last audit: {row['attempts']} {row['before']} → {row['verdict']}"
                for row in changed
            ),
        ],
        good=good,
    )


def _by_key(made: "DataFrame", counts: dict[str, int], good: bool) -> Outcome:
    from pyspark.sql.functions import desc

    order = (desc("to_look_at"), desc("attempts"), "queue", "tenant")
    rows = collected(made.orderBy(*order).limit(_LIMIT))
    columns = f"queue, key, attempts, {', '.join(counts).lower()}"
    lines = laid_out(rows, columns, "no attempt is of a queue with keys")
    return Outcome({"verdicts": counts, "keys": rows}, lines, good)


def _doubts(audited: "DataFrame", limit: int) -> list[Row]:
    """Why attempts are UNKNOWN, and how many of them."""
    from pyspark.sql.functions import col, count, desc, lit

    names = [col(f"doubt_{name}").alias(name) for name in _DOUBT[1:]]
    unknown = audited.where("verdict = 'UNKNOWN'").select("why", *names)
    counted = unknown.groupBy(*_DOUBT).agg(count(lit(1)).alias("attempts"))
    return collected(counted.orderBy(desc("attempts"), *_DOUBT).limit(limit))


def _changed(warehouse: "Warehouse") -> list[Row]:
    """What the last audit said of attempts, and this one, and of how many."""
    changes = warehouse.table("changes").groupBy("before", "verdict").count()
    changes = changes.withColumnRenamed("count", "attempts")
    return collected(changes.orderBy("before", "verdict"))


def _write_ids(audited: "DataFrame", path: Path) -> None:
    """A row at a time: there may be more than fit."""
    from celery_fair.pipeline.whole_file import whole_file

    provable = audited.where("verdict = 'REPLAYABLE'").select("id", "retries", "published")
    with whole_file(path) as file:
        for row in provable.toLocalIterator():
            file.write(f"{json.dumps(row.asDict())}\n")
