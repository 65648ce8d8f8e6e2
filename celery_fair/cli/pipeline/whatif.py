"""``fair pipeline whatif``."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from celery_fair.cli.escaped import escaped
from celery_fair.cli.options import Outcome, table
from celery_fair.cli.pipeline.context import Context
from celery_fair.cli.pipeline.options import with_spark
from celery_fair.cli.pipeline.tracing import Source, on_trace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["whatif"]

_OF_QUEUE = ("scenario", "queue")
_OF_KEY = (*_OF_QUEUE, "key")
_LIMIT = 10_000
_KEYS = 1000
_NAMED = 5


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
@on_trace
@with_spark
def whatif(context: Context, source: Source, texts: tuple[str, ...], by: str) -> Outcome:
    """Replay a trace under other quanta, leashes, caps and concurrency.

    SOURCE is a warehouse, or with --format a trace of another kind. The worker's own scheduler
    decides, on a clock that jumps; what is printed are the waits, in seconds, that there would have
    been. A change is one of

    \b
    QUEUE.quantum=8      QUEUE.rate=10/s        concurrency=16
    QUEUE.class=1        QUEUE.burst=5          cost=one, cost=runtime
    QUEUE.max_in_flight=2                       overhead=0.002
    QUEUE.paused=60..120                        max_wait=30
    QUEUE[KEY].weight=5, .max_in_flight=2, .rate=10/s, .burst=5; KEY may be *
    "a queue of words".quantum=8, "a [b]"["a key"].weight=5

    What is not changed is as recorded. A warehouse knows each queue's options and when they
    changed, how costs were counted, which workers were there when, with how many slots, and what
    each start cost; a queue without a recorded quantum has 1. Other traces have quanta of 1, one
    slot, and starts that cost nothing. concurrency is the most slots at once; when there were fewer
    there still are. A pause is from so many seconds after the trace's first message until so many.
    overhead is the time from a slot's becoming free to the next start, in seconds. A queue or key
    of which the trace has no message is refused.

    Beside p50 and p95 stands where they would be nine times of ten, of other traces like this one,
    as far as its own parts tell; where they do not, the last line says why.

    \b
    Examples:
      python -m celery_fair pipeline whatif warehouse --scenario 'more: interactive.quantum=80'
      python -m celery_fair pipeline whatif jobs.swf --format swf --base concurrency=64
      python -m celery_fair pipeline whatif jobs.csv --format csv \\
          --columns published=submitted,runtime=seconds,queue=team --scenario '4: concurrency=4'
    """
    from pyspark.sql.functions import array_position, col, desc, lit

    from celery_fair.pipeline.replay.fanout import refuse_absent, replay
    from celery_fair.pipeline.replay.scenario import Scenario, parse_scenario

    named = [Scenario("recorded"), *(parse_scenario(text, Scenario("")) for text in texts)]
    if len({scenario.name for scenario in named}) < len(named):
        raise click.BadParameter("two scenarios have one name: write 'NAME: CHANGE …'")
    trace, recorded = source.read(context)
    scenarios = [recorded, *(parse_scenario(text, recorded) for text in texts)]
    refuse_absent(texts, trace)
    context.say(f"replaying {len(scenarios)} scenarios")
    names = [scenario.name for scenario in scenarios]
    in_order = (array_position(lit(names), col("scenario")),)
    rows = replay(trace, scenarios, by_key=by == "key")
    if by == "queue":
        return _outcome(rows.orderBy("queue", *in_order).limit(_LIMIT), _OF_QUEUE)
    most = rows.where("key is not null").orderBy(desc("started"), "queue", "key", *in_order)
    return _outcome(most.limit(_KEYS * len(scenarios)), _OF_KEY)


def _outcome(rows: "DataFrame", names: tuple[str, ...]) -> Outcome:
    found = [row.asDict() for row in rows.collect()]
    return Outcome(found, _lines(found, names))


def _lines(rows: list[dict[str, Any]], names: tuple[str, ...]) -> Iterator[str]:
    heads = [
        *names,
        "started",
        "mean",
        "p50",
        "90 % of p50",
        "p95",
        "90 % of p95",
        "p99",
        "longest",
    ]
    cells = (
        [
            *(row[name] for name in (*names, "started", "mean")),
            *(cell for each in ("p50", "p95") for cell in (row[each], _interval(row, each))),
            *(row[name] for name in ("p99", "longest")),
        ]
        for row in rows
    )
    yield from table(heads, cells, "no message of the trace has a key")
    without: dict[str, list[str]] = {}
    for row in rows:
        if row["doubt"] and (row["p50_low"] is None or row["p95_low"] is None):
            of = "/".join(row[name] for name in names[1:])
            without.setdefault(row["doubt"], []).append(f"{of} ({row['scenario']})")
    for doubt, those in without.items():
        more = f" and {len(those) - _NAMED} more" if len(those) > _NAMED else ""
        yield escaped(f"no interval for {', '.join(those[:_NAMED])}{more}: {doubt}")


def _interval(row: dict[str, Any], name: str) -> str | None:
    """Where the quantile would be nine times of ten, of other hours like those of the trace."""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return None if low is None else f"{low:.3g}..{high:.3g}"
