"""``fair pipeline fairness``."""

from pathlib import Path

import click

from celery_fair.cli.options import INTERVAL, Number, Outcome
from celery_fair.cli.pipeline.context import (
    Context,
    by_key_option,
    collected,
    laid_out,
    on_warehouse,
)

_BY_QUEUE = (
    "queue, quantum, of: unit, share, target, off by: deviation, of seconds: share_of_seconds,"
    " intervals, starved s: starved_seconds, held s: held_seconds, verdict,"
    " intervals that are: verdicts"
)
_BY_KEY = (
    "queue, key, weight, of: unit, served, share, target, off by: deviation, seconds, intervals,"
    " verdict"
)
_NONE = "no queue had work in any interval, by what the log says of their states"
_NO_KEY = "no queue is shared by key, or no two of its keys had work at one time: see fair_keys"


@click.command()
@click.option(
    "--interval",
    type=INTERVAL,
    default=60.0,
    help="Shares are judged over intervals of this length.",
)
@click.option(
    "--tolerance",
    type=Number(0, 1),
    default=0.05,
    help="How far a share may be off its target, as a part of the target.",
)
@click.option("--fail-on-unfair", is_flag=True, help="Exit with 1 if a queue, or a key, is UNFAIR.")
@by_key_option("A row for each queue, or for each key of a queue that is shared by key.")
@on_warehouse
def fairness(
    context: Context,
    warehouse: Path,
    interval: float,
    tolerance: float,
    fail_on_unfair: bool,
    by: str,
) -> Outcome:
    """Compare each queue's share with its quantum's, or each key's with its weight's.

    What is shared is what the workers count: messages, or with fair_cost = "runtime" seconds, or
    what a callable says (of); the share of processing time stands beside it (of seconds). A queue's
    target is its quantum divided by the quanta of all queues that had work at the same time. Each
    interval gets one of

    \b
    FAIR               on target, or off by no more than the scheduler may owe
    UNFAIR             off by more than the tolerance
    STARVED_BY_BROKER  short because the worker had none of its messages, and the broker had some
    HELD               held back by its own leash or cap
    ALONE              nothing to compare with

    The table on the screen sums up the intervals; `fairness` in the warehouse has each of them. A
    queue is UNFAIR if more than the tolerance of what it was due was due in UNFAIR intervals.

    With --by key the tenants of each queue in fair_keys are compared, and the parts of a tenant
    with each other, while they have something waiting: the 1000 that got or were due most. HELD
    are those below their share that have a cap or a leash.

    \b
    Examples:
      python -m celery_fair pipeline fairness warehouse
      python -m celery_fair pipeline fairness warehouse --interval 10 --json
      python -m celery_fair pipeline fairness warehouse --by key

    Exit status: 0; 1 if a queue, or a key, is UNFAIR and --fail-on-unfair was given.
    """
    from celery_fair.pipeline.gold.fairness import by_queue
    from celery_fair.pipeline.gold.fairness import fairness as by_intervals
    from celery_fair.pipeline.gold.fairness_by_key import by_key, fairness_by_key
    from celery_fair.pipeline.publish import publish

    there, judged = context.warehouse(warehouse), {"interval": interval, "tolerance": tolerance}
    if by == "key":
        made = by_key(publish(there, context.say, fairness_by_key, **judged), tolerance)
        whose, columns, none = "keys", _BY_KEY, _NO_KEY
    else:
        made = by_queue(publish(there, context.say, by_intervals, **judged), tolerance)
        whose, columns, none = "queues", _BY_QUEUE, _NONE
    rows = collected(made)
    unfair = sum(row["verdict"] == "UNFAIR" for row in rows)
    found = {**judged, "unfair": unfair, whose: rows}
    return Outcome(found, laid_out(rows, columns, none), not (fail_on_unfair and unfair))
