"""``fair pipeline advise``."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from celery_fair.cli.options import Outcome, table
from celery_fair.cli.pipeline.options import Context, with_spark
from celery_fair.cli.pipeline.tracing import Source, on_trace

if TYPE_CHECKING:
    from celery_fair.pipeline.replay.advice import Advice, Goal, Outcomes
    from celery_fair.pipeline.replay.scenario import Scenario

__all__ = ["advise"]

_GOAL = re.compile(r"(?P<queue>\S+)=p(?P<percent>50|90|95|99):(?P<number>[\d.]+)(?P<unit>ms|s|m|h)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_WORDS = {
    "nothing": "As it is, every target is met.",
    "quanta": "These quanta meet the targets:",
    "class": 'No quanta do, but a class of its own does (fair_policy = "strict"):',
    "slots": "No quanta can do it, nor can strict priority, with {before} slots. With {now}:",
    None: "No quanta can do it, nor can {now} slots: a message takes too long by itself, or comes"
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
        goals.append(Goal(match["queue"], int(match["percent"]), seconds))
    return goals


@click.command()
@click.option(
    "--slo",
    "goals",
    metavar="QUEUE=p95:5s",
    multiple=True,
    required=True,
    callback=_goals,
    help="A target: 95 % of the queue's messages are to start within 5 s.",
)
@on_trace
@with_spark
def advise(context: Context, source: Source, goals: list["Goal"]) -> Outcome:
    """Find the quanta that meet targets for waits, and prove them by a replay.

    Tries, in this order: what there is; quanta of the queues with a target, from a quarter of what
    they are to 1024 times that, of which it takes those that leave most to the others; strict
    priority; more slots.

    \b
    Examples:
      python -m celery_fair pipeline advise warehouse --slo interactive=p95:5s
      python -m celery_fair pipeline advise warehouse --slo a=p95:500ms --slo b=p99:1m --json

    Exit status: 0 if there is advice; 1 if nothing that was tried meets the targets.
    """
    from celery_fair.pipeline.replay.advice import advise as find
    from celery_fair.pipeline.replay.fanout import replay

    trace, recorded = source.read(context)
    queues = sorted(row["queue"] for row in trace.select("queue").distinct().collect())
    for goal in goals:
        if goal.queue not in queues:
            raise click.BadParameter(f"the trace has no queue {goal.queue!r}; it has {queues}")

    def run(scenarios: list["Scenario"]) -> "Outcomes":
        context.say(f"replaying {len(scenarios)} scenarios")
        rows = replay(trace, scenarios).collect()
        return {(row["scenario"], row["queue"]): row.asDict() for row in rows}

    advice = find(recorded, goals, run)
    lines = _lines(advice, goals, recorded, queues)
    return Outcome(_document(advice, queues), lines, good=bool(advice.means))


def _document(advice: "Advice", queues: list[str]) -> dict[str, Any]:
    scenario = advice.scenario
    return {
        "means": advice.means,
        "concurrency": scenario.concurrency,
        "quanta": {queue: scenario.last_plan(queue).quantum for queue in queues},
        "classes": {queue: scenario.last_plan(queue).level for queue in queues},
        "tried": advice.tried,
        "proof": list(advice.outcomes.values()),
    }


def _lines(
    advice: "Advice", goals: list["Goal"], base: "Scenario", queues: list[str]
) -> Iterator[str]:
    now = advice.scenario
    words = _WORDS[advice.means]
    yield words.format(before=base.concurrency, now=now.concurrency)
    targets = {(goal.queue, goal.percent): goal.seconds for goal in goals}
    percents = sorted({goal.percent for goal in goals})
    rows = []
    for queue in queues:
        row = advice.outcomes[now.name, queue]
        waits = [value for p in percents for value in (row[f"p{p}"], targets.get((queue, p)))]
        rows.append(
            [
                queue,
                now.last_plan(queue).quantum,
                now.last_plan(queue).level,
                row["started"],
                *waits,
            ]
        )
    heads = [head for p in percents for head in (f"p{p}", "target")]
    yield from table(["queue", "quantum", "class", "messages", *heads], rows, "no queues")
    yield f"proven by replaying {advice.tried} scenarios"
