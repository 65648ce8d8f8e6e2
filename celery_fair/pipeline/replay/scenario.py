"""What is supposed in a replay: slots, and for each queue its quantum, class, leash and cap."""

import json
import re
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any

from celery_fair.core.dwrr import check_quantum
from celery_fair.core.token_bucket import parse_rate
from celery_fair.pipeline.errors import PipelineError

__all__ = ["COSTS", "Plan", "Scenario", "parse_scenario"]

COSTS = ("one", "runtime")
_SETTING = re.compile(r"(?:(?P<queue>\S+)\.)?(?P<option>[a-z_]+)=(?P<value>\S+)")


@dataclass(frozen=True)
class Plan:
    """One queue's options, as in `fair_queues`; and when it is paused.

    Attributes:
        pauses: pairs of seconds since the trace's first message, in order: from when until when.
    """

    quantum: float = 1.0
    level: int = 0
    rate: float | None = None
    burst: float = 1.0
    max_in_flight: int | None = None
    pauses: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Scenario:
    """A supposition.

    Attributes:
        concurrency: slots; those of several workers are put together.
        cost: "one", or "runtime": an estimate at dispatch, settled at the end.
        max_wait: seconds of waiting that count for one class (`fair_max_wait`), or None.
        overhead: seconds for which a message holds its slot beyond its run time.
        queues: those that differ from `Plan`'s defaults.
    """

    name: str
    concurrency: int = 1
    cost: str = "one"
    max_wait: float | None = None
    overhead: float = 0.0
    queues: dict[str, Plan] = field(default_factory=dict)

    def plan(self, queue: str) -> Plan:
        """Return a queue's options."""
        return self.queues.get(queue) or Plan()

    def with_plan(self, queue: str, **options: Any) -> "Scenario":
        """Return a scenario in which a queue has other options."""
        plan = replace(self.plan(queue), **options)
        return replace(self, queues={**self.queues, queue: plan})

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "Scenario":
        fields = json.loads(text)
        for plan in fields["queues"].values():
            plan["pauses"] = tuple(map(tuple, plan["pauses"]))
        fields["queues"] = {name: Plan(**plan) for name, plan in fields["queues"].items()}
        return cls(**fields)


def parse_scenario(text: str, base: Scenario) -> Scenario:
    """Return `base` with changes, such as "fast: a.quantum=8 b.rate=10/s concurrency=4".

    Raises:
        PipelineError: a word is not such a change, or its value is out of bounds.
    """
    name, colon, changes = text.partition(":")
    scenario = replace(base, name=name.strip() if colon else text.strip())
    for word in (changes if colon else text).split():
        scenario = _changed(scenario, word, text)
    return scenario


def _changed(scenario: Scenario, word: str, text: str) -> Scenario:
    match = _SETTING.fullmatch(word)
    parsers = _OF_QUEUE if match and match["queue"] else _OF_ALL
    if match is None or match["option"] not in parsers:
        raise PipelineError(
            f"scenario {text!r}: {word!r} is no change; write QUEUE.OPTION=VALUE with one of"
            f" {', '.join(_OF_QUEUE)}, or one of {', '.join(_OF_ALL)} without a queue"
        )
    option = match["option"]
    try:
        value = parsers[option](match["value"])
    except ValueError as exc:
        raise PipelineError(f"scenario {text!r}: {word!r}: {exc}") from exc
    if match["queue"]:
        return scenario.with_plan(match["queue"], **{_FIELDS.get(option, option): value})
    return replace(scenario, **{option: value})


def _at_least_one(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(f"must be at least 1, not {value}")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ValueError(f"must be a number of seconds from 0 on, not {text}")
    return value


def _seconds_above_none(text: str) -> float:
    value = _seconds(text)
    if not value:
        raise ValueError("must be above 0 seconds")
    return value


def _pauses(text: str) -> tuple[tuple[float, float], ...]:
    pauses = []
    for pause in text.split(","):
        begin, dots, end = pause.partition("..")
        if not dots or not _seconds(begin) < _seconds(end):
            raise ValueError(f"must be FROM..UNTIL in seconds, such as 60..120, not {pause}")
        pauses.append((float(begin), float(end)))
    pauses.sort()
    if any(end >= begin for (_, end), (begin, _) in pairwise(pauses)):
        raise ValueError(f"must be pauses that do not overlap or touch, not {text}")
    return tuple(pauses)


def _cost(text: str) -> str:
    if text not in COSTS:
        raise ValueError(f"must be one of {', '.join(COSTS)}, not {text!r}")
    return text


_FIELDS = {"class": "level", "paused": "pauses"}
_OF_QUEUE: dict[str, Any] = {
    "quantum": lambda text: check_quantum(float(text)),
    "class": int,
    "rate": parse_rate,
    "burst": _at_least_one,
    "max_in_flight": _at_least_one,
    "paused": _pauses,
}
_OF_ALL: dict[str, Any] = {
    "concurrency": _at_least_one,
    "cost": _cost,
    "max_wait": _seconds_above_none,
    "overhead": _seconds,
}
