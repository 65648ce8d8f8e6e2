"""Which quanta would meet a target for waits? The answer is proven by a replay, or there is none.

Quanta are tried on a ladder, each step twice the one before, for the queues that have a target; of
those that meet all targets, the ones that leave most to the other queues are taken. A turn of
another queue lasts as long as its quantum, whatever the shares; so the ladder is tried again with
all quanta scaled down until no other queue's is above one.

If none does, the best that any quantum can do is what a class of its own does: strict priority is a
quantum without bounds. If not even that meets the targets, no quanta can, and slots are added until
they are met.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from celery_fair.pipeline.replay.scenario import Scenario

__all__ = ["Advice", "Goal", "Outcomes", "advise"]

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

    def met(self, name: str, outcomes: Outcomes) -> bool:
        row = outcomes.get((name, self.queue))
        return row is not None and row[f"p{self.percent}"] <= self.seconds


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


def advise(base: Scenario, goals: list[Goal], run: Run) -> Advice:
    """Return advice for meeting all goals.

    Arguments:
        run: replays scenarios of different names.
    """
    steps: list[tuple[str, list[Scenario]]] = [
        ("nothing", [base]),
        ("quanta", [*_ladder(base, goals), *_ladder(_finer(base, goals), goals)]),
        ("class", [_classed(base, goals)]),
        ("slots", list(_widened(_classed(base, goals)))),
    ]
    tried = 0
    for means, scenarios in steps:
        outcomes = run(scenarios)
        tried += len(scenarios)
        for scenario in scenarios:
            if all(goal.met(scenario.name, outcomes) for goal in goals):
                if means == "slots":
                    return _relaxed(base, goals, scenario, run, tried)
                return Advice(means, scenario, _of(scenario, outcomes), tried)
    return Advice(None, scenarios[-1], _of(scenarios[-1], outcomes), tried)


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


def _relaxed(base: Scenario, goals: list[Goal], found: Scenario, run: Run, tried: int) -> Advice:
    """With that many slots, quanta may be enough where it took a class before."""
    slots = found.concurrency
    wide = replace(base.with_slots(slots), name=f"{base.name} {slots} slots")
    ladders = [*_ladder(wide, goals), *_ladder(_finer(wide, goals), goals)]
    scenarios = [wide, *ladders, found]
    outcomes = run(scenarios)
    met = (s for s in scenarios if all(goal.met(s.name, outcomes) for goal in goals))
    best = next(met)
    return Advice("slots", best, _of(best, outcomes), tried + len(scenarios))


def _of(scenario: Scenario, outcomes: Outcomes) -> Outcomes:
    return {key: row for key, row in outcomes.items() if key[0] == scenario.name}
