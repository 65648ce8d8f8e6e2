"""What is supposed in a replay: slots, and each queue's quantum, class, leash, cap and keys."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from celery_fair.core.chooser import Targets, targets_of
from celery_fair.core.pricing import check_quantum
from celery_fair.core.targets import Target, parse_target
from celery_fair.core.token_bucket import parse_rate
from celery_fair.pipeline.errors import RefusedError

COSTS = ("one", "runtime")
_SETTING = re.compile(
    r'(?:(?:"(?P<quoted>[^"]+)"|(?P<plain>[^\s"]+?))'
    r'(?:\[(?:"(?P<quoted_key>[^"]*)"|(?P<plain_key>[^\]\s"]*))\])?\.)?'
    r"(?P<option>[a-z_]+)=(?P<value>\S+)"
)
_WORD = re.compile(r'(?:"[^"]*"|\S)+')
_EVERY_KEY = "*"


@dataclass(frozen=True)
class KeyPlan:
    """What a key of a queue weighs and may start, in all workers together."""

    weight: float = 1.0
    max_in_flight: int | None = None
    rate: float | None = None
    burst: float = 1.0


@dataclass(frozen=True)
class Plan:
    """One queue's options, as in `fair_queues` and `fair_keys`.

    Attributes:
        ahead: messages of it that the broker sends workers ahead: if a queue of which as many have
            waited runs dry, it is waited for, as by a worker for its refill; None: it never is.
        usual: of each key that has no plan of its own; None: the queue is not shared by key.
        keys: those that have one.
        target: what its messages may wait; then classes mean nothing, to any queue.
        importance: which target is missed last.
    """

    quantum: float = 1.0
    level: int = 0
    rate: float | None = None
    burst: float = 1.0
    max_in_flight: int | None = None
    ahead: int | None = None
    usual: KeyPlan | None = None
    keys: dict[str, KeyPlan] = field(default_factory=dict)
    target: Target | None = None
    importance: int = 0

    def with_key(self, key: str, **options: Any) -> "Plan":
        """Return a plan in which a key, or `*` each that has no plan of its own, has others."""
        usual = self.usual or KeyPlan()
        if key == _EVERY_KEY:
            return replace(self, usual=replace(usual, **options))
        changed = replace(self.keys.get(key, usual), **options)
        return replace(self, usual=usual, keys={**self.keys, key: changed})


@dataclass(frozen=True)
class Fleet:
    """Workers that consume the same queues: their slots, put together.

    Attributes:
        queues: what they consume; empty: all.
        slots: pairs of a time, in seconds since 1970, and how many there are from then on; before
            the first there is none.
    """

    queues: tuple[str, ...]
    slots: tuple[tuple[float, int], ...]

    def scaled(self, factor: float) -> "Fleet":
        """Return one of so many times the slots; where there are any, there is one at least."""
        slots = ((at, max(1, round(n * factor)) if n else 0) for at, n in self.slots)
        return replace(self, slots=tuple(slots))


@dataclass(frozen=True)
class Change:
    """From some time on, in seconds since 1970, a queue has another plan."""

    at: float
    queue: str
    plan: Plan


@dataclass(frozen=True)
class Scenario:
    """A supposition.

    Attributes:
        concurrency: the most slots that there are at once.
        cost: "one", or "runtime": an estimate at dispatch, settled at the end.
        max_wait: seconds of waiting that count for one class (`fair_max_wait`), or None.
        overhead: seconds from a slot's becoming free to the start of the message that gets it;
            None: as the trace says of each message.
        queues: those that differ from `Plan`'s defaults.
        fleets: who has the slots when; empty: one fleet has all of them all the time.
        changes: of queues, in the order of time.
    """

    name: str
    concurrency: int = 1
    cost: str = "one"
    max_wait: float | None = None
    overhead: float | None = None
    queues: dict[str, Plan] = field(default_factory=dict)
    fleets: tuple[Fleet, ...] = ()
    changes: tuple[Change, ...] = ()

    def plan(self, queue: str) -> Plan:
        """Return a queue's options, at first."""
        return self.queues.get(queue) or Plan()

    def last_plan(self, queue: str) -> Plan:
        """Return a queue's options after all changes."""
        later = [change.plan for change in self.changes if change.queue == queue]
        return later[-1] if later else self.plan(queue)

    @property
    def targets(self) -> Targets | None:
        """What queues with a target are chosen by; None if there is none."""
        names = dict.fromkeys([*self.queues, *(change.queue for change in self.changes)])
        plans = {name: self.last_plan(name) for name in names}
        return targets_of({name: (p.target, p.importance) for name, p in plans.items()})

    def with_plan(self, queue: str, **options: Any) -> "Scenario":
        """Return a scenario in which a queue has other options, all the time."""
        return self._each_plan(queue, lambda plan: replace(plan, **options))

    def with_key(self, queue: str, key: str, **options: Any) -> "Scenario":
        """Return a scenario in which a key of a queue has other options, all the time."""
        return self._each_plan(queue, lambda plan: plan.with_key(key, **options))

    def with_slots(self, concurrency: int) -> "Scenario":
        """Return a scenario with so many slots, when there were the most; else in proportion."""
        factor = concurrency / self.concurrency
        fleets = tuple(fleet.scaled(factor) for fleet in self.fleets)
        return replace(self, concurrency=concurrency, fleets=fleets)

    def _each_plan(self, queue: str, change: Callable[[Plan], Plan]) -> "Scenario":
        changes = tuple(
            replace(each, plan=change(each.plan)) if each.queue == queue else each
            for each in self.changes
        )
        queues = {**self.queues, queue: change(self.plan(queue))}
        return replace(self, queues=queues, changes=changes)


def parse_scenario(text: str, base: Scenario) -> Scenario:
    """Return `base` with changes, such as "fast: a.quantum=8 b[acme].weight=2 concurrency=4".

    Raises:
        RefusedError: a word is not such a change, or its value is out of bounds.
    """
    name, colon, _ = text.partition(":")
    scenario = replace(base, name=name.strip() if colon else text.strip())
    for word in _words(text):
        scenario = _changed(scenario, word, text)
    return scenario


def named(text: str) -> set[tuple[str, str | None]]:
    """Return the queues that a scenario is about, with a key each, or with None or "" of none."""
    matches = filter(None, map(_SETTING.fullmatch, _words(text)))
    meant = map(_meant, matches)
    return {(queue, None if key == _EVERY_KEY else key) for queue, key in meant if queue}


def _words(text: str) -> list[str]:
    name, colon, changes = text.partition(":")
    return _WORD.findall(changes if colon else name)


def _changed(scenario: Scenario, word: str, text: str) -> Scenario:
    match = _SETTING.fullmatch(word)
    queue, key = (None, None) if match is None else _meant(match)
    parsers = _OF_ALL if not queue else _OF_QUEUE if key is None else _OF_KEY
    if match is None or match["option"] not in parsers:
        raise RefusedError(
            f"scenario {text!r}: {word!r} is no change; write QUEUE.OPTION=VALUE with one of"
            f" {', '.join(_OF_QUEUE)}, QUEUE[KEY].OPTION=VALUE with one of {', '.join(_OF_KEY)}, or"
            f" one of {', '.join(_OF_ALL)} without a queue; put names with blanks or brackets in"
            ' double quotes: "a queue".quantum=4'
        )
    option = match["option"]
    try:
        value = parsers[option](match["value"])
    except ValueError as exc:
        raise RefusedError(f"scenario {text!r}: {word!r}: {exc}") from exc
    if queue and key is not None:
        return scenario.with_key(queue, key, **{option: value})
    if queue:
        return scenario.with_plan(queue, **{_FIELDS.get(option, option): value})
    if option == "concurrency":
        return scenario.with_slots(value)
    return replace(scenario, **{option: value})


def _meant(match: re.Match[str]) -> tuple[str | None, str | None]:
    """Return which queue and key."""
    quoted = match["quoted_key"]
    return match["quoted"] or match["plain"], match["plain_key"] if quoted is None else quoted


def _read(kind: Callable[[str], Any], what: str, text: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"must be {what}, not {text!r}") from None


_number = partial(_read, float, "a number")
_whole = partial(_read, int, "a whole number")


def _quantum(text: str) -> float:
    return check_quantum(_number(text))


def _at_least_one(text: str) -> int:
    if (value := _whole(text)) < 1:
        raise ValueError(f"must be at least 1, not {value}")
    return int(value)


def _or_none(read: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: None if text == "none" else read(text)


def _seconds(text: str, more_than_none: bool = False) -> float:
    value = float(_number(text))
    if not 0 <= value < float("inf"):
        raise ValueError(f"must be a number of seconds from 0 on, not {text}")
    if more_than_none and not value:
        raise ValueError("must be above 0 seconds")
    return value


def _cost(text: str) -> str:
    if text not in COSTS:
        raise ValueError(f"must be one of {', '.join(COSTS)}, not {text!r}")
    return text


_FIELDS = {"class": "level"}
_LIMITS = {
    "rate": _or_none(parse_rate),
    "burst": _at_least_one,
    "max_in_flight": _or_none(_at_least_one),
}
_OF_KEY: dict[str, Any] = {"weight": _quantum, **_LIMITS}
_OF_QUEUE: dict[str, Any] = {
    "quantum": _quantum,
    "class": _whole,
    "target": _or_none(parse_target),
    "importance": _whole,
    **_LIMITS,
}
_OF_ALL: dict[str, Any] = {
    "concurrency": _at_least_one,
    "cost": _cost,
    "max_wait": partial(_seconds, more_than_none=True),
    "overhead": _seconds,
}
