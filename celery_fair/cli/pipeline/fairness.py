"""``fair pipeline fairness``."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from celery_fair.cli.options import SECONDS, Outcome, table
from celery_fair.cli.pipeline.options import Context, on_warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["fairness"]

_HEADS = (
    *("queue", "quantum", "of", "share", "target", "off by", "of seconds"),
    *("intervals", "starved s", "held s", "verdict", "intervals that are"),
)
_LIMIT = 1000


@click.command()
@click.option(
    "--interval",
    type=SECONDS,
    default=60.0,
    help="Shares are judged over intervals of this length.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(0, 1),
    default=0.05,
    help="How far a share may be off its target, as a part of the target.",
)
@click.option("--fail-on-unfair", is_flag=True, help="Exit with 1 if a queue is UNFAIR.")
@on_warehouse
def fairness(
    context: Context, warehouse: Path, interval: float, tolerance: float, fail_on_unfair: bool
) -> Outcome:
    """Compare each queue's share with its quantum's.

    What is shared is what the workers count: messages, or with fair_cost = "runtime" seconds, or
    what a callable says; the share of processing time stands beside it (of seconds). A queue's
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

    \b
    Examples:
      python -m celery_fair pipeline fairness warehouse
      python -m celery_fair pipeline fairness warehouse --interval 10 --json

    Exit status: 0; 1 if a queue is UNFAIR and --fail-on-unfair was given.
    """
    from celery_fair.pipeline.publish import write_fairness

    made = write_fairness(context.warehouse(warehouse), interval, tolerance, context.say)
    queues = _by_queue(made, tolerance)
    unfair = any(queue["verdict"] == "UNFAIR" for queue in queues)
    return Outcome(
        {"interval": interval, "tolerance": tolerance, "queues": queues},
        table(_HEADS, map(_row, queues), "no queue had work in any interval"),
        good=not (fail_on_unfair and unfair),
    )


def _by_queue(made: "DataFrame", tolerance: float) -> list[dict[str, Any]]:
    from celery_fair.pipeline.gold.fairness import by_queue

    rows = by_queue(made, tolerance).limit(_LIMIT).collect()
    return [row.asDict(recursive=True) for row in rows]


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


def percent(part: float | None, form: str = ".2%") -> str | None:
    """Return a part of a whole as it is read; None if it is not known."""
    return None if part is None else format(part, form)
