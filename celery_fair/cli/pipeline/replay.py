"""``fair pipeline whatif`` and ``fair pipeline advise``: what other settings would have done."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from celery_fair.cli.options import Number, Outcome, table
from celery_fair.cli.pipeline.context import (
    Columns,
    Context,
    Row,
    collected,
    laid_out,
    with_spark,
)
from celery_fair.cli.pipeline.tracing import Source, on_trace
from celery_fair.operate.text import escaped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from celery_fair.pipeline.replay.advice import Advice, Goal, Outcomes
    from celery_fair.pipeline.replay.scenario import Scenario

_LIMIT = 10_000
_KEYS = 1000
_NAMED = 5

_GOAL = re.compile(
    r"(?P<queue>\S+)=p(?P<percent>50|90|95|99):(?P<number>\d+(?:\.\d+)?)(?P<unit>ms|s|m|h)"
)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_WORDS = {
    "nothing": "As it is, every target is met.",
    "quanta": "These quanta meet the targets:",
    "class": 'No quanta do, but a class of its own does (fair_policy = "strict"):',
    "slots": "No quanta can do it, nor can strict priority, with {before}. With {now}:",
    None: "No quanta can do it, nor can {now}: a message takes too long by itself, or comes"
    " too late.",
}


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
    in_order = array_position(lit([scenario.name for scenario in scenarios]), col("scenario"))
    rows = replay(trace, scenarios, by_key=by == "key")
    of: tuple[str, ...] = ("queue",)
    if by == "key":
        most = rows.where("key is not null").orderBy(desc("started"), "queue", "key", in_order)
        rows, of = most.limit(_KEYS * len(scenarios)), ("queue", "key")
    else:
        rows = rows.orderBy("queue", in_order).limit(_LIMIT)
    found = collected(rows)
    columns: Columns = (
        *("scenario", *of, "started", "mean"),
        *("p50", ("90 % of p50", _interval("p50")), "p95", ("90 % of p95", _interval("p95"))),
        *("p99", "longest"),
    )
    lines = laid_out(found, columns, "no message of the trace has a key")
    return Outcome(found, [*lines, *_doubts(found, of)])


def _interval(name: str) -> Callable[[Row], str | None]:
    """Where the quantile would be nine times of ten, of other hours like those of the trace."""

    def cell(row: Row) -> str | None:
        low, high = row[f"{name}_low"], row[f"{name}_high"]
        return None if low is None else f"{low:.3g}..{high:.3g}"

    return cell


def _doubts(rows: list[Row], of: tuple[str, ...]) -> Iterator[str]:
    """Why there is no interval, where there is none."""
    without: dict[str, list[str]] = {}
    for row in rows:
        if row["doubt"] and (row["p50_low"] is None or row["p95_low"] is None):
            what = "/".join(row[name] for name in of)
            without.setdefault(row["doubt"], []).append(f"{what} ({row['scenario']})")
    for doubt, those in without.items():
        more = f" and {len(those) - _NAMED} more" if len(those) > _NAMED else ""
        yield escaped(f"no interval for {', '.join(those[:_NAMED])}{more}: {doubt}")


def _goals(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> list["Goal"]:
    from celery_fair.pipeline.replay.advice import Goal

    goals = []
    for value in values:
        match = _GOAL.fullmatch(value)
        if match is None:
            raise click.BadParameter(
                f"{value!r} is not of the form QUEUE=p95:5s, with p50, p90, p95 or p99, and ms, s,"
                " m or h"
            )
        seconds = float(match["number"]) * _UNITS[match["unit"]]
        if not seconds:
            raise click.BadParameter(f"{value!r}: no message starts in no time; say more than 0")
        goals.append(Goal(match["queue"], int(match["percent"]), seconds))
    given = Counter((goal.queue, goal.percent) for goal in goals)
    if twice := [f"p{percent} of {queue!r}" for (queue, percent), n in given.items() if n > 1]:
        raise click.BadParameter(f"{twice[0]} has more than one target: keep one of them")
    return goals


@click.command()
@click.option(
    "--slo",
    "goals",
    metavar="QUEUE=p95:5s",
    multiple=True,
    required=True,
    callback=_goals,
    help="A target: 95 % of the queue's messages are to start within 5 s. May be given again.",
)
@click.option(
    "--held-out",
    metavar="PART",
    type=Number(0, 0.9),
    default=0.5,
    help="The last part of the trace's time, on which advice is checked; 0: none.",
)
@on_trace
@with_spark
def advise(context: Context, source: Source, goals: list["Goal"], held_out: float) -> Outcome:
    """Find the quanta that meet targets for waits, and check them on another part of the trace.

    Tries, in this order: what there is; quanta of the queues with a target, from a quarter of what
    they are to 1024 times that, of which it takes those that leave most to the others; strict
    priority; more slots.

    A target counts as met with a margin for chance: by the quantile's bound, what it is hardly ever
    above when blocks of the trace are drawn at random. What was chosen on the first part of the
    trace is then replayed on the part that was held out, and both are printed.

    \b
    Examples:
      python -m celery_fair pipeline advise warehouse --slo interactive=p95:5s
      python -m celery_fair pipeline advise warehouse --slo a=p95:500ms --slo b=p99:1m --json

    Exit status: 0 if there is advice that keeps the targets on the part that was held out; 1 if it
    does not, or that could not be checked, or nothing that was tried meets the targets.
    """
    from pyspark.sql.functions import col, count_if
    from pyspark.sql.functions import max as last
    from pyspark.sql.functions import min as first

    from celery_fair.pipeline.replay.advice import advise as find
    from celery_fair.pipeline.replay.fanout import replay

    trace, recorded = source.read(context)
    published = col("published")
    [(begin, end)] = trace.agg(first(published), last(published)).collect()
    is_first = published < (end - held_out * (end - begin) if held_out else math.inf)
    counts: dict[str, int] = dict(trace.groupBy("queue").agg(count_if(is_first)).collect())
    _check(goals, counts)

    def run_on(part: "DataFrame", scenarios: list["Scenario"]) -> "Outcomes":
        context.say(f"replaying {len(scenarios)} scenarios")
        rows = replay(part, scenarios).collect()
        return {(row["scenario"], row["queue"]): row.asDict() for row in rows}

    advice = find(recorded, goals, lambda scenarios: run_on(trace.where(is_first), scenarios))
    now = advice.scenario
    checked = run_on(trace.where(~is_first), [now]) if held_out else {}
    absent = sorted({goal.queue for goal in goals if (now.name, goal.queue) not in checked})
    missed = [
        f"{goal.queue} p{goal.percent}"
        for goal in goals
        if goal.queue not in absent and not goal.met(now.name, checked)
    ]
    kept = False if missed else None if absent else True
    queues = sorted(counts)
    document = {
        "means": advice.means,
        "concurrency": now.concurrency,
        "quanta": {queue: now.last_plan(queue).quantum for queue in queues},
        "classes": {queue: now.last_plan(queue).level for queue in queues},
        "tried": advice.tried,
        "proof": list(advice.outcomes.values()),
        "held_out": list(checked.values()) if held_out else None,
        "kept": kept,
    }
    lines = [
        _WORDS[advice.means].format(before=_slots(recorded), now=_slots(now)),
        *_compared(advice, checked, goals, recorded, queues),
        f"replayed {advice.tried} scenarios on the first part of the trace",
    ]
    if held_out:
        lines += _held_out(missed, absent)
    return Outcome(document, lines, good=bool(advice.means) and (kept is True or not held_out))


def _check(goals: list["Goal"], counts: dict[str, int]) -> None:
    """Refuse targets that no advice can be made for.

    Arguments:
        counts: the messages of each queue of which advice is made.
    """
    for goal in goals:
        if goal.queue not in counts:
            raise click.BadParameter(
                f"the trace has no queue {goal.queue!r}; it has {', '.join(sorted(counts))}",
                param_hint="--slo",
            )
        if not counts[goal.queue]:
            raise click.BadParameter(
                f"{goal.queue!r} has no message in the first part of the trace, of which advice is"
                " made: hold out less with --held-out, or nothing with --held-out 0",
                param_hint="--slo",
            )


def _slots(scenario: "Scenario") -> str:
    return f"{scenario.concurrency} slot{'s' if scenario.concurrency > 1 else ''}"


def _compared(
    advice: "Advice",
    checked: "Outcomes",
    goals: list["Goal"],
    base: "Scenario",
    queues: list[str],
) -> Iterator[str]:
    """What each queue has, and would wait, as a table."""
    now = advice.scenario
    targets = {(goal.queue, goal.percent): goal.seconds for goal in goals}
    percents = sorted({goal.percent for goal in goals})
    rows = []
    for queue in queues:
        plan, before = now.last_plan(queue), base.last_plan(queue)
        row = advice.outcomes.get((now.name, queue), {})
        after = checked.get((now.name, queue), {})
        cells = [queue, before.quantum, plan.quantum, plan.level, row.get("started")]
        for p in percents:
            cells += [row.get(f"p{p}"), row.get(f"p{p}_bound"), after.get(f"p{p}")]
            cells.append(targets.get((queue, p)))
        rows.append(cells)
    heads = [head for p in percents for head in (f"p{p}", "bound", "held out", "target")]
    return table(["queue", "before", "quantum", "class", "messages", *heads], rows, "no queues")


def _held_out(missed: list[str], absent: list[str]) -> Iterator[str]:
    """Whether the advice has kept the targets on the part that was held out."""
    if missed:
        yield f"on the part that was held out not kept: {', '.join(missed)}"
    if absent:
        yield (
            f"not checked: {', '.join(absent)}, without a message in the part that was held out;"
            " hold out more or less with --held-out"
        )
    if not missed and not absent:
        yield "kept on the part that was held out"
