"""``fair pipeline fairness``."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from celery_fair.cli.options import INTERVAL, Number, Outcome, table
from celery_fair.cli.pipeline.context import Context
from celery_fair.cli.pipeline.options import by_key_option, on_warehouse, percent
from celery_fair.pipeline.key_names import named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["fairness"]

_HEADS = (
    *("queue", "quantum", "of", "share", "target", "off by", "of seconds"),
    *("intervals", "starved s", "held s", "verdict", "intervals that are"),
)
_BY_KEY = (
    *("queue", "key", "weight", "of", "served", "share", "target", "off by", "seconds"),
    *("intervals", "verdict"),
)
_NOISY = (
    *("queue", "noisy key", "intervals", "in flight", "others' p95", "share", "target"),
    "fair in",
)
_NONE = "no queue had work in any interval, by what the log says of their states"
_LIMIT = 1000
_KEYS = 10_000
"""Rows by key of all queues; of each there are 1001, and as many of parts, at the most."""


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
    warehouse: Path | str,
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
    with each other, while they have something waiting: the 1000 that got or were due most, and the
    others as one. HELD are those below their share that have a cap or a leash. Below that are keys
    which Amazon SQS would call noisy: more than a tenth of what runs is theirs, while others wait.
    That may be no more than their share.

    \b
    Examples:
      python -m celery_fair pipeline fairness warehouse
      python -m celery_fair pipeline fairness warehouse --interval 10 --json
      python -m celery_fair pipeline fairness warehouse --by key

    Exit status: 0; 1 if a queue, or a key, is UNFAIR and --fail-on-unfair was given.
    """
    from celery_fair.pipeline.gold.fairness import by_queue
    from celery_fair.pipeline.publish import write_fairness

    if by == "key":
        return _by_key(context, warehouse, interval, tolerance, fail_on_unfair)
    made = write_fairness(context.warehouse(warehouse), interval, tolerance, context.say)
    queues, judged, unfair = _judged(by_queue(made, tolerance), _LIMIT)
    lines = table(_HEADS, map(_row, queues), _NONE)
    return Outcome(
        {
            "interval": interval,
            "tolerance": tolerance,
            "judged": judged,
            "unfair": unfair,
            "queues": queues,
        },
        [*lines, *_left_out(queues, judged)],
        good=not (fail_on_unfair and unfair),
    )


def _judged(rows: "DataFrame", most: int) -> tuple[list[dict[str, Any]], int, int]:
    """Return the rows to show; of how many they are, and how many of all are UNFAIR.

    These are the first to be shown where not all are.
    """
    from pyspark.sql.functions import col, count_if

    rows, is_unfair = rows.cache(), col("verdict").eqNullSafe("UNFAIR")
    judged = rows.count()
    [(unfair,)] = rows.agg(count_if(is_unfair)).collect()
    if judged <= most:
        shown = rows.collect()
    else:
        shown = rows.where(is_unfair).limit(most).collect()
        shown += rows.where(~is_unfair).limit(most - len(shown)).collect()
    return [row.asDict(recursive=True) for row in shown], judged, unfair


def _left_out(shown: list[dict[str, Any]], judged: int) -> list[str]:
    if len(shown) == judged:
        return []
    return [f"{len(shown):,} of {judged:,} are shown: first those that are UNFAIR"]


def _by_key(
    context: Context, warehouse: Path | str, interval: float, tolerance: float, fail_on_unfair: bool
) -> Outcome:
    from celery_fair.pipeline.gold.fairness_by_key import by_key
    from celery_fair.pipeline.gold.noisy import by_tenant
    from celery_fair.pipeline.publish import write_fairness_by_key

    known = context.warehouse(warehouse)
    made, loud = write_fairness_by_key(known, interval, tolerance, context.say)
    keys, judged, unfair = _judged(by_key(made, tolerance), _KEYS)
    noisy = [row.asDict() for row in by_tenant(loud).limit(_LIMIT).collect()]
    lines = [
        *table(
            _BY_KEY,
            map(_key_row, keys),
            "no queue is shared by key, or no two of its keys had work at one time: see fair_keys",
        )
    ]
    lines += _left_out(keys, judged)
    if noisy:
        lines += ["", *table(_NOISY, map(_noisy_row, noisy), "")]
    return Outcome(
        {
            "interval": interval,
            "tolerance": tolerance,
            "judged": judged,
            "unfair": unfair,
            "keys": keys,
            "noisy": noisy,
        },
        lines,
        good=not (fail_on_unfair and unfair),
    )


def _key_row(key: dict[str, Any]) -> list[Any]:
    return [
        key["queue"],
        named(key),
        key["weight"],
        key["unit"],
        key["served"],
        percent(key["share"]),
        percent(key["target"]),
        percent(key["deviation"], "+.2%"),
        key["seconds"],
        key["intervals"],
        key["verdict"],
    ]


def _noisy_row(key: dict[str, Any]) -> list[Any]:
    return [
        key["queue"],
        named(key),
        key["intervals"],
        percent(key["in_flight"]),
        key["others_p95"],
        percent(key["share"]),
        percent(key["target"]),
        key["fair"],
    ]


def _row(queue: dict[str, Any]) -> list[Any]:
    verdicts = ", ".join(f"{count} {name}" for name, count in sorted(queue["verdicts"].items()))
    return [
        queue["queue"],
        queue["quantum"],
        queue["unit"],
        percent(queue["share"]),
        percent(queue["target"]),
        percent(queue["deviation"], "+.2%"),
        percent(queue["share_of_seconds"]),
        queue["intervals"],
        queue["starved_seconds"],
        queue["held_seconds"],
        queue["verdict"],
        verdicts,
    ]
