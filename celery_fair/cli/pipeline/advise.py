"""``fair pipeline advise``."""

import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from celery_fair.cli.options import Number, Outcome, table
from celery_fair.cli.pipeline.context import Context
from celery_fair.cli.pipeline.options import with_spark
from celery_fair.cli.pipeline.tracing import Source, on_trace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from celery_fair.pipeline.replay.advice import Advice, Goal, Outcomes
    from celery_fair.pipeline.replay.scenario import Scenario

__all__ = ["advise"]

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
    from celery_fair.pipeline.replay.advice import advise as find
    from celery_fair.pipeline.replay.fanout import replay

    trace, recorded = source.read(context)
    at = _boundary(trace, held_out)
    counts = _counts(trace, at)
    queues = sorted(counts)
    _check(goals, counts)
    first, rest = _parted(trace, at)

    def run_on(part: "DataFrame", scenarios: list["Scenario"]) -> "Outcomes":
        context.say(f"replaying {len(scenarios)} scenarios")
        rows = replay(part, scenarios).collect()
        return {(row["scenario"], row["queue"]): row.asDict() for row in rows}

    advice = find(recorded, goals, partial(run_on, first))
    name = advice.scenario.name
    checked = None if rest is None else run_on(rest, [advice.scenario])
    kept = _kept(goals, name, checked)
    lines = _lines(advice, checked, goals, recorded, queues)
    document = _document(advice, checked, kept, queues)
    return Outcome(document, lines, good=bool(advice.means) and (kept or checked is None))


def _boundary(trace: "DataFrame", held_out: float) -> float:
    """Return when the part begins that is held out."""
    from pyspark.sql.functions import max as last
    from pyspark.sql.functions import min as first

    [row] = trace.agg(first("published").alias("begin"), last("published").alias("end")).collect()
    if not held_out:
        return math.inf
    at: float = row["end"] - held_out * (row["end"] - row["begin"])
    return at


def _counts(trace: "DataFrame", at: float) -> dict[str, tuple[int, int]]:
    """Return how many messages each queue has before a time, and from then on."""
    from pyspark.sql.functions import col, count_if

    early = col("published") < at
    rows = trace.groupBy("queue").agg(count_if(early), count_if(~early)).collect()
    return {queue: (before, after) for queue, before, after in rows}


def _check(goals: list["Goal"], counts: dict[str, tuple[int, int]]) -> None:
    """Refuse targets that no advice can be made for."""
    for goal in goals:
        if goal.queue not in counts:
            raise click.BadParameter(
                f"the trace has no queue {goal.queue!r}; it has {', '.join(sorted(counts))}",
                param_hint="--slo",
            )
        if not counts[goal.queue][0]:
            raise click.BadParameter(
                f"{goal.queue!r} has no message in the first part of the trace, of which advice is"
                " made: hold out less with --held-out, or nothing with --held-out 0",
                param_hint="--slo",
            )


def _parted(trace: "DataFrame", at: float) -> tuple["DataFrame", "DataFrame | None"]:
    """Return the part that advice is made from, and the one that it is checked on."""
    from pyspark.sql.functions import col

    if at == math.inf:
        return trace, None
    return trace.where(col("published") < at), trace.where(col("published") >= at)


def _kept(goals: list["Goal"], name: str, checked: "Outcomes | None") -> bool | None:
    """Whether the targets are met on the part that was held out; None if nobody can say."""
    if checked is None:
        return None
    known = [goal for goal in goals if (name, goal.queue) in checked]
    if not all(goal.met(name, checked) for goal in known):
        return False
    return True if len(known) == len(goals) else None


def _document(
    advice: "Advice", checked: "Outcomes | None", kept: bool | None, queues: list[str]
) -> dict[str, Any]:
    scenario = advice.scenario
    return {
        "means": advice.means,
        "concurrency": scenario.concurrency,
        "quanta": {queue: scenario.last_plan(queue).quantum for queue in queues},
        "classes": {queue: scenario.last_plan(queue).level for queue in queues},
        "tried": advice.tried,
        "proof": list(advice.outcomes.values()),
        "held_out": None if checked is None else list(checked.values()),
        "kept": kept,
    }


def _slots(scenario: "Scenario") -> str:
    return f"{scenario.concurrency} slot{'s' if scenario.concurrency > 1 else ''}"


def _lines(
    advice: "Advice",
    checked: "Outcomes | None",
    goals: list["Goal"],
    base: "Scenario",
    queues: list[str],
) -> Iterator[str]:
    now = advice.scenario
    words = _WORDS[advice.means]
    yield words.format(before=_slots(base), now=_slots(now))
    targets = {(goal.queue, goal.percent): goal.seconds for goal in goals}
    percents = sorted({goal.percent for goal in goals})
    rows = []
    for queue in queues:
        plan, row = now.last_plan(queue), advice.outcomes.get((now.name, queue), {})
        after = (checked or {}).get((now.name, queue), {})
        waits = [
            each
            for p in percents
            for each in (
                row.get(f"p{p}"),
                row.get(f"p{p}_bound"),
                after.get(f"p{p}"),
                targets.get((queue, p)),
            )
        ]
        rows.append(
            [
                queue,
                base.last_plan(queue).quantum,
                plan.quantum,
                plan.level,
                row.get("started"),
                *waits,
            ]
        )
    heads = [head for p in percents for head in (f"p{p}", "bound", "held out", "target")]
    yield from table(["queue", "before", "quantum", "class", "messages", *heads], rows, "no queues")
    yield f"replayed {advice.tried} scenarios on the first part of the trace"
    if checked is None:
        return
    missed = [
        f"{goal.queue} p{goal.percent}"
        for goal in goals
        if (now.name, goal.queue) in checked and not goal.met(now.name, checked)
    ]
    absent = sorted({goal.queue for goal in goals if (now.name, goal.queue) not in checked})
    if missed:
        yield f"on the part that was held out not kept: {', '.join(missed)}"
    if absent:
        yield (
            f"not checked: {', '.join(absent)}, without a message in the part that was held out;"
            " hold out more or less with --held-out"
        )
    if not missed and not absent:
        yield "kept on the part that was held out"
