"""``fair pipeline whatif``: what other settings would have done."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from celery_fair.cli.options import NUMBER, Named, Outcome
from celery_fair.cli.pipeline.context import (
    Context,
    collected,
    laid_out,
    with_spark,
)
from celery_fair.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LIMIT = 10_000
_KEYS = 1000


@click.command()
@click.option(
    "--scenario",
    "texts",
    metavar="'NAME: CHANGE …'",
    multiple=True,
    help="What is supposed instead of what was; may be given more than once.",
)
@click.option(
    "--by",
    type=click.Choice(("queue", "key")),
    default="queue",
    help="Whose waits are shown: each queue's, or those of the keys that start the most.",
)
@click.option(
    "--base",
    metavar="'CHANGE …'",
    default="",
    show_default=False,
    help="What is supposed in all scenarios, such as 'concurrency=2 mail.quantum=4'.",
)
@click.option(
    "--since",
    metavar="SECONDS",
    type=NUMBER,
    help="Leave out what was published before this time, in seconds since 1970.",
)
@click.option(
    "--until",
    metavar="SECONDS",
    type=NUMBER,
    help="Leave out what was published at this time or later.",
)
@click.argument("path", metavar="WAREHOUSE", type=Named(path_type=Path))
@with_spark
def whatif(
    context: Context,
    path: Path,
    texts: tuple[str, ...],
    by: str,
    base: str,
    since: float | None,
    until: float | None,
) -> Outcome:
    """Replay a trace under other quanta, leashes, caps and concurrency.

    The worker's own scheduler decides, on a clock that jumps; what is printed are the waits, in
    seconds, that there would have been. A change is one of

    \b
    QUEUE.quantum=8      QUEUE.rate=10/s        concurrency=16
    QUEUE.class=1        QUEUE.burst=5          cost=one, cost=runtime
    QUEUE.max_in_flight=2                       overhead=0.002
    QUEUE.target=95%<0.5s   QUEUE.importance=1  max_wait=30
    QUEUE[KEY].weight=5, .max_in_flight=2, .rate=10/s, .burst=5; KEY may be *
    "a queue of words".quantum=8, "a [b]"["a key"].weight=5

    What is not changed is as recorded. The log knows each queue's options and when they changed,
    how costs were counted, which workers were there when, with how many slots, and what each start
    cost; a queue without a recorded quantum has 1. concurrency is the most slots at once; when
    there were fewer there still are. overhead is the time from a slot's becoming free to the next
    start, in seconds. With a target, classes mean nothing. A queue or key of which the trace has no
    message is refused.

    \b
    Examples:
      python -m celery_fair pipeline whatif warehouse --scenario 'more: interactive.quantum=80'
      python -m celery_fair pipeline whatif warehouse --by key --scenario 'two: concurrency=2'
    """
    from pyspark.sql.functions import array_position, col, desc, lit

    from celery_fair.pipeline.replay.fanout import refuse_absent, replay
    from celery_fair.pipeline.replay.scenario import Scenario, parse_scenario
    from celery_fair.pipeline.traces.recorded import recorded_scenario, recorded_trace

    if since is not None and until is not None and since >= until:
        raise click.UsageError(
            f"--since {since:.15g} is not before --until {until:.15g}, and so no message is between"
            " them: exchange them, or name another time"
        )
    base = f"recorded: {base}"
    named = [parse_scenario(text, Scenario("")) for text in (base, *texts)]
    if len({scenario.name for scenario in named}) < len(named):
        raise click.BadParameter("two scenarios have one name: write 'NAME: CHANGE …'")
    warehouse = context.warehouse(path)
    attempts = warehouse.table("attempts")
    recorded = recorded_scenario(warehouse.table("events"), attempts)
    trace = recorded_trace(attempts, warehouse.table("processes"), recorded)
    trace = _cut(trace, since, until).cache()
    if trace.isEmpty():
        raise PipelineError(f"no message was published{_when(since, until)}: name another time")
    recorded = parse_scenario(base, recorded)
    scenarios = [recorded, *(parse_scenario(text, recorded) for text in texts)]
    refuse_absent([base, *texts], trace)
    context.say(f"replaying {len(scenarios)} scenarios")
    in_order = array_position(lit([scenario.name for scenario in scenarios]), col("scenario"))
    rows = replay(trace, scenarios, by_key=by == "key")
    of = "queue"
    if by == "key":
        most = rows.where("key is not null").orderBy(desc("started"), "queue", "key", in_order)
        rows, of = most.limit(_KEYS * len(scenarios)), "queue, key"
    else:
        rows = rows.orderBy("queue", in_order).limit(_LIMIT)
    found = collected(rows)
    columns = f"scenario, {of}, started, mean, p50, p95, p99, longest"
    return Outcome(found, laid_out(found, columns, "no message of the trace has a key"))


def _cut(trace: "DataFrame", since: float | None, until: float | None) -> "DataFrame":
    from pyspark.sql.functions import col

    if since is not None:
        trace = trace.where(col("published") >= since)
    return trace if until is None else trace.where(col("published") < until)


def _when(since: float | None, until: float | None) -> str:
    """In words, which time is looked at."""
    begin = "" if since is None else f" at {since:.15g} or later"
    end = "" if until is None else f" before {until:.15g}"
    return " and".join(filter(None, (begin, end)))
