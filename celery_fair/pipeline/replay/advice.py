"""Which quanta would meet a target for waits? The answer is checked by a replay, or there is none.

Quanta are tried on a ladder, each step twice the one before, for the queues that have a target; of
those that meet all targets, the ones that leave most to the other queues are taken. A turn of
another queue lasts as long as its quantum, whatever the shares; so the ladder is tried again with
all quanta scaled down until no other queue's is above one.

If none does, the best that any quantum can do is what a class of its own does: strict priority is a
quantum without bounds. If not even that meets the targets, no quanta can, and slots are added until
they are met.

The margin
----------
What just meets a target on one trace misses it on the next as often as not. So a target counts as
met if the *bound* of the quantile is below it (see `celery_fair.pipeline.replay.outcome`): what
the quantile is hardly ever above in a part of the trace, by drawing blocks of it. And what was
chosen on one part of a trace is checked on another, which it was not made from.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from celery_fair.pipeline.replay.scenario import Scenario

Outcomes = Mapping[tuple[str, str], Mapping[str, Any]]
"""Scenario's name and queue to that queue's row of outcome."""
Run = Callable[[list[Scenario]], Outcomes]

_LADDER = tuple(range(-2, 11))
_AT_ONCE = 170
_MORE_SLOTS = (1.25, 1.5, 2, 3, 4, 6, 8, 16, 32)


@dataclass(frozen=True)
class Goal:
    """At least `percent` of a queue's messages are to wait no longer than `seconds`."""

    queue: str
    percent: int
    seconds: float

    def met(self, name: str, outcomes: Outcomes, margin: bool = False) -> bool:
        """Whether a scenario meets it; with a margin, probably on other traces too."""
        row = outcomes.get((name, self.queue))
        column = f"p{self.percent}_bound" if margin else f"p{self.percent}"
        return row is not None and row[column] <= self.seconds


@dataclass(frozen=True)
class Advice:
    """What to do.

    Attributes:
        means: "nothing", "quanta", "class", "slots", or None where nothing that was tried will do.
        scenario: what was advised; the last that was tried if `means` is None.
        outcomes: of the replay that proves it.
        tried: scenarios replayed.
    """

    means: str | None
    scenario: Scenario
    outcomes: Outcomes
    tried: int


def advise(base: Scenario, goals: list[Goal], run: Run, margin: bool = True) -> Advice:
    """Return advice for meeting all goals.

    Arguments:
        run: replays scenarios of different names.
        margin: whether bounds, not the quantiles themselves, are to be below the targets.
    """
    steps: list[tuple[str, list[Scenario]]] = [
        ("nothing", [base]),
        ("quanta", _quanta(base, goals)),
        ("class", [_classed(base, goals)]),
        ("slots", list(_widened(_classed(base, goals)))),
    ]
    count = 0
    for means, scenarios in steps:
        outcomes = run(scenarios)
        count += len(scenarios)
        found = _first(scenarios, goals, outcomes, margin)
        if found is not None and means == "slots":
            return _relaxed(base, goals, found, run, margin, count)
        if found is not None:
            return Advice(means, found, _of(found, outcomes), count)
    return Advice(None, scenarios[-1], _of(scenarios[-1], outcomes), count)


def tried(base: Scenario, goals: list[Goal]) -> list[Scenario]:
    """Return what is tried with the slots that there are."""
    return [base, *_quanta(base, goals), _classed(base, goals)]


def _quanta(base: Scenario, goals: list[Goal]) -> list[Scenario]:
    return [*_ladder(base, goals), *_ladder(_finer(base, goals), goals)]


def _first(
    scenarios: list[Scenario], goals: list[Goal], outcomes: Outcomes, margin: bool
) -> Scenario | None:
    """Return the first of the scenarios that meets all goals."""
    for scenario in scenarios:
        if all(goal.met(scenario.name, outcomes, margin) for goal in goals):
            return scenario
    return None


def _ladder(base: Scenario, goals: list[Goal]) -> Iterable[Scenario]:
    """The least generous first."""
    queues = sorted({goal.queue for goal in goals})
    if len(_LADDER) ** len(queues) <= _AT_ONCE:
        steps = list(product(_LADDER, repeat=len(queues)))
    else:
        steps = [(step,) * len(queues) for step in _LADDER]
    for powers in sorted(steps, key=lambda powers: (sum(powers), powers)):
        scenario = base
        for queue, power in zip(queues, powers, strict=True):
            quantum = base.last_plan(queue).quantum * 2.0**power
            scenario = scenario.with_plan(queue, quantum=quantum)
        yield replace(scenario, name=f"{base.name} quanta {powers}")


def _finer(base: Scenario, goals: list[Goal]) -> Scenario:
    """The same shares in shorter turns."""
    others = base.queues.keys() - {goal.queue for goal in goals}
    largest = max((base.last_plan(queue).quantum for queue in others), default=1.0)
    scenario = base
    for queue in {*base.queues, *(goal.queue for goal in goals)}:
        quantum = base.last_plan(queue).quantum / max(largest, 1.0)
        scenario = scenario.with_plan(queue, quantum=quantum)
    return replace(scenario, name=f"{base.name} finer")


def _classed(base: Scenario, goals: list[Goal]) -> Scenario:
    """The queues that have a target in a class above all others."""
    top = max((plan.level for plan in base.queues.values()), default=0) + 1
    scenario = base
    for goal in goals:
        scenario = scenario.with_plan(goal.queue, level=top)
    return replace(scenario, name=f"{base.name} class {top}")


def _widened(scenario: Scenario) -> Iterable[Scenario]:
    slots = scenario.concurrency
    counts = sorted({max(slots + 1, round(slots * factor)) for factor in _MORE_SLOTS})
    for count in counts:
        wide = scenario.with_slots(count)
        yield replace(wide, name=f"{scenario.name} {count} slots")


def _relaxed(
    base: Scenario, goals: list[Goal], found: Scenario, run: Run, margin: bool, count: int
) -> Advice:
    """With that many slots, quanta may be enough where it took a class before."""
    slots = found.concurrency
    wide = replace(base.with_slots(slots), name=f"{base.name} {slots} slots")
    scenarios = [wide, *_quanta(wide, goals), found]
    outcomes = run(scenarios)
    best = _first(scenarios, goals, outcomes, margin)
    assert best is not None  # the last one does
    return Advice("slots", best, _of(best, outcomes), count + len(scenarios))


def _of(scenario: Scenario, outcomes: Outcomes) -> Outcomes:
    return {key: row for key, row in outcomes.items() if key[0] == scenario.name}
