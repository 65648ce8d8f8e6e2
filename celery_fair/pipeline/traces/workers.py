"""Who had how many slots for which queues when, and by which options: of what workers said.

A worker counts for a queue from the time at which it said that it consumes it, until it says that
it does no more, ends, or is not heard of again. Workers that consume the same queues are one fleet.

A leash or a cap that each worker has of its own is multiplied by the number of workers that consume
the queue at the time.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from celery_fair.pipeline.replay.scenario import Change, Fleet, KeyPlan, Plan, Scenario

__all__ = ["Said", "scenario_of"]

Said = Mapping[str, Any]
"""A record of kind `process`, `queue` or `settings` of a worker's main process; or one of kind
`silent`, when a worker that has not ended was heard of last."""

_TOGETHER = 0.05
"""Seconds within which what is said is one change."""


@dataclass
class _Worker:
    """One, as it is by now."""

    concurrency: int = 0
    consumed: set[str] = field(default_factory=set)
    settings: dict[str, Said] = field(default_factory=dict)

    def hear(self, said: Said) -> None:
        kind, queue = said["kind"], said["queue"]
        if kind == "settings":
            self.settings[queue] = said
            self.consumed.add(queue)
        elif kind == "queue" and said["state"] == "unassigned":
            self.consumed.discard(queue)
        elif kind == "queue":
            self.consumed.add(queue)
        elif kind == "silent" or said["state"] in ("exit", "dead"):
            self.consumed.clear()
        else:
            self.concurrency = int(said["concurrency"] or self.concurrency)


def scenario_of(said: Iterable[Said], until: Mapping[str, float]) -> Scenario:
    """Return the scenario that workers lived under.

    Arguments:
        said: in the order of time.
        until: by queue, when its last message was started; who leaves after that is taken to stay,
            for a replay may take longer.
    """
    told = _Told()
    for each, after in pairwise([*said, None]):
        assert each is not None
        told.hear(each)
        if after is None or after["at"] - each["at"] > _TOGETHER:
            told.note(each["at"])
    return told.scenario(until)


class _Told:
    """What has been said so far."""

    def __init__(self) -> None:
        self._workers: dict[str, _Worker] = {}
        self._now: Counter[tuple[str, ...]] = Counter()
        self._plans: dict[str, Plan] = {}
        self._first: dict[str, Plan] = {}
        self._changes: list[Change] = []
        self._general: Said = {}
        self._most = 0
        self._fleets: dict[tuple[str, ...], list[tuple[float, int]]] = {}

    def hear(self, said: Said) -> None:
        self._workers.setdefault(said["boot"], _Worker()).hear(said)

    def note(self, at: float) -> None:
        """Write down what is different from the last time."""
        present = [w for w in self._workers.values() if w.consumed and w.concurrency]
        slots: Counter[tuple[str, ...]] = Counter()
        for worker in present:
            slots[tuple(sorted(worker.consumed))] += worker.concurrency
        for queues in slots.keys() | self._now.keys():
            if slots[queues] != self._now[queues]:
                self._fleets.setdefault(queues, []).append((at, slots[queues]))
        self._now = +slots
        self._most = max(self._most, slots.total())
        for queue, plan in self._plans_of(present):
            if self._plans.get(queue) != plan:
                if self._first.setdefault(queue, plan) is not plan:
                    self._changes.append(Change(at, queue, plan))
                self._plans[queue] = plan

    def _plans_of(self, present: list[_Worker]) -> Iterator[tuple[str, Plan]]:
        consumers: dict[str, list[Said]] = {}
        for worker in present:
            for queue in worker.consumed:
                consumers.setdefault(queue, []).append(worker.settings.get(queue, {}))
        for queue, all_said in sorted(consumers.items()):
            said = all_said[-1]
            if said.get("costs"):
                self._general = said
            yield queue, _plan(said, len(all_said))

    def scenario(self, until: Mapping[str, float]) -> Scenario:
        fleets = (
            Fleet(queues, tuple(_while_needed(queues, slots, until)))
            for queues, slots in sorted(self._fleets.items())
        )
        return Scenario(
            "recorded",
            concurrency=max(1, self._most),
            cost="runtime" if self._general.get("costs") == "runtime" else "one",
            max_wait=self._general.get("max_wait"),
            queues=self._first,
            fleets=tuple(fleets),
            changes=tuple(self._changes),
        )


def _while_needed(
    queues: tuple[str, ...], slots: list[tuple[float, int]], until: Mapping[str, float]
) -> Iterator[tuple[float, int]]:
    last = max((until.get(queue, -math.inf) for queue in queues), default=-math.inf)
    return ((at, count) for at, count in slots if count or at <= last)


def _plan(said: Said, workers: int) -> Plan:
    rate, cap = said.get("rate"), said.get("cap")
    many = 1 if said.get("scope") == "cluster" else workers
    keyed = said.get("key_weight") is not None
    return Plan(
        quantum=said.get("quantum") or 1.0,
        level=int(said.get("level") or 0) if said.get("policy") == "strict" else 0,
        rate=None if rate is None else rate * many,
        burst=1.0 if rate is None else (said.get("burst") or 1.0) * many,
        max_in_flight=None if cap is None else int(cap) * workers,
        ahead=None if said.get("ahead") is None else int(said["ahead"]) * workers,
        usual=_usual(said) if keyed else None,
        keys=_keys(said) if keyed else {},
    )


def _usual(said: Said) -> KeyPlan:
    cap = said.get("key_cap")
    return KeyPlan(
        said["key_weight"],
        None if cap is None else int(cap),
        said.get("key_rate"),
        said.get("key_burst") or 1.0,
    )


def _keys(said: Said) -> dict[str, KeyPlan]:
    usual = _usual(said)
    weights, caps = said.get("key_weights") or {}, said.get("key_caps") or {}
    rates, bursts = said.get("key_rates") or {}, said.get("key_bursts") or {}
    return {
        key: KeyPlan(
            weights.get(key, usual.weight),
            (int(caps[key]) or None) if key in caps else usual.max_in_flight,
            (rates[key] or None) if key in rates else usual.rate,
            bursts.get(key, usual.burst),
        )
        for key in sorted(weights.keys() | caps.keys() | rates.keys())
    }
