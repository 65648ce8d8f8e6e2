"""``fair pipeline whatif``."""

import click

from celery_fair.cli.options import Outcome
from celery_fair.cli.pipeline.options import Context, tabled, with_spark
from celery_fair.cli.pipeline.tracing import Source, on_trace

__all__ = ["whatif"]

_SHOWN = ("scenario", "queue", "started", "mean", "p50", "p95", "p99", "longest")
_LIMIT = 10_000


@click.command()
@click.option(
    "--scenario",
    "texts",
    metavar="'NAME: CHANGE …'",
    multiple=True,
    help="What is supposed instead of what was; may be given more than once.",
)
@on_trace
@with_spark
def whatif(context: Context, source: Source, texts: tuple[str, ...]) -> Outcome:
    """Replay a trace under other quanta, leashes, caps and concurrency.

    SOURCE is a warehouse, or with --format a trace of another kind. The worker's own scheduler
    decides, on a clock that jumps; what is printed are the waits, in seconds, that there would have
    been. A change is one of

    \b
    QUEUE.quantum=8      QUEUE.rate=10/s        concurrency=16
    QUEUE.class=1        QUEUE.burst=5          cost=one, cost=runtime
    QUEUE.max_in_flight=2                       overhead=0.002
    QUEUE.paused=60..120                        max_wait=30

    What is not changed is as recorded. A warehouse knows each queue's options, how costs were
    counted, and the workers' slots; a queue without a recorded quantum has 1. Other traces have
    quanta of 1 and one slot. A pause is from so many seconds after the trace's first message until
    so many. overhead is how long a message holds its slot beyond its run time.

    \b
    Examples:
      python -m celery_fair pipeline whatif warehouse --scenario 'more: interactive.quantum=80'
      python -m celery_fair pipeline whatif jobs.swf --format swf --base concurrency=64
      python -m celery_fair pipeline whatif jobs.csv --format csv \\
          --columns published=submitted,runtime=seconds,queue=team --scenario '4: concurrency=4'
    """
    from celery_fair.pipeline.replay.fanout import replay
    from celery_fair.pipeline.replay.scenario import parse_scenario

    trace, recorded = source.read(context)
    scenarios = [recorded, *(parse_scenario(text, recorded) for text in texts)]
    if len({scenario.name for scenario in scenarios}) < len(scenarios):
        raise click.BadParameter("two scenarios have one name: write 'NAME: CHANGE …'")
    context.say(f"replaying {len(scenarios)} scenarios")
    rows = replay(trace, scenarios).orderBy("scenario", "queue").limit(_LIMIT)
    return tabled(rows, _SHOWN, "the trace has no messages")
