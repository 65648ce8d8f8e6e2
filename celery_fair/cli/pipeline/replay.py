"""``fair pipeline whatif``: what other settings would have done."""

from pathlib import Path

import click

from celery_fair.cli.options import Outcome
from celery_fair.cli.pipeline.context import Context, by_key_option, on_warehouse, tabled
from celery_fair.pipeline.errors import PipelineError

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
@by_key_option("Whose waits are shown: each queue's, or those of the keys that start the most.")
@on_warehouse
def whatif(context: Context, warehouse: Path, texts: tuple[str, ...], by: str) -> Outcome:
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

    named = [Scenario("recorded"), *(parse_scenario(text, Scenario("")) for text in texts)]
    if len({scenario.name for scenario in named}) < len(named):
        raise click.BadParameter("two scenarios have one name: write 'NAME: CHANGE …'")
    known = context.warehouse(warehouse)
    attempts, processes = known.table("attempts"), known.table("processes")
    events, settings = known.table("events"), known.table("settings")
    recorded = recorded_scenario(events, settings, attempts, processes)
    trace = recorded_trace(attempts, processes, recorded).cache()
    if trace.isEmpty():
        raise PipelineError("the log has no message of which is known when it was published")
    scenarios = [recorded, *(parse_scenario(text, recorded) for text in texts)]
    refuse_absent(texts, trace)
    context.say(f"replaying {len(scenarios)} scenarios")
    in_order = array_position(lit([scenario.name for scenario in scenarios]), col("scenario"))
    rows = replay(trace, scenarios, by_key=by == "key")
    of = "queue"
    if by == "key":
        most = rows.where("key is not null").orderBy(desc("started"), "queue", "key", in_order)
        rows, of = most.limit(_KEYS * len(scenarios)), "queue, key"
    else:
        rows = rows.orderBy("queue", in_order).limit(_LIMIT)
    columns = f"scenario, {of}, started, mean, p50, p95, p99, longest"
    return tabled(rows, columns, "no message of the trace has a key")
