"""What the workers themselves recorded, and what a start cost them.

A start costs the time from a slot's becoming free to the start of the work that gets it. That is
the broker's, the worker's and its pool's part of it: the end is told, the message acknowledged, the
next one chosen and handed to a thread or a child process. It is no part of a run time, and on short
tasks much of a slot's time.

A worker of n slots starts its k-th task in the slot that its (k - n)-th end has made free: whatever
the order is in which they end, k - n had to end before. The *handover* of a message is the time
from then to its start; from its publication, if that was later and so the slot was waiting. It is
not known of the first n of a worker, nor where a leash, a cap or a pause may have held the message
back. There it is taken to be the mean of its worker's, or else of all workers' with the same pool;
and so is what is longer than `_LONGEST`, which nobody waits for a free slot.

The *transit* of a message is the time from its publication to its arrival, as far as it came while
all slots were taken; whoever publishes an urgent message in that time is too late for the next free
slot. What takes longer than `_TRANSIT` is not on its way: the worker does not want it yet.

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

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from celery_fair.core.targets import parse_target
from celery_fair.pipeline.replay.scenario import Change, Fleet, KeyPlan, Plan, Scenario
from celery_fair.pipeline.silver.queues import SETTINGS

# Workers -----------------------------------------------------------------------


Said = Mapping[str, Any]
"""A record of kind `process`, `queue` or `settings` of a worker's main process; or one of kind
`gone`, when a worker has ended, or was heard of last."""

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
        if kind == "gone":
            self.consumed.clear()
        elif kind == "process":
            self.concurrency = said["concurrency"] or self.concurrency
        elif kind == "settings":
            self.settings[queue] = said
            self.consumed.add(queue)
        elif said["state"] == "unassigned":
            self.consumed.discard(queue)
        else:
            self.consumed.add(queue)


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
        fleets = []
        for queues, slots in sorted(self._fleets.items()):
            last = max(until.get(queue, -math.inf) for queue in queues)
            needed = tuple((at, count) for at, count in slots if count or at <= last)
            fleets.append(Fleet(queues, needed))
        return Scenario(
            "recorded",
            concurrency=max(1, self._most),
            cost="runtime" if self._general.get("costs") == "runtime" else "one",
            max_wait=self._general.get("max_wait"),
            queues=self._first,
            fleets=tuple(fleets),
            changes=tuple(self._changes),
        )


def _plan(said: Said, workers: int) -> Plan:
    rate, cap, ahead = said.get("rate"), said.get("cap"), said.get("ahead")
    many = 1 if said.get("scope") == "cluster" else workers
    keyed, target = said.get("key_weight") is not None, said.get("target")
    return Plan(
        quantum=said.get("quantum") or 1.0,
        level=(said.get("level") or 0) if said.get("policy") == "strict" else 0,
        rate=None if rate is None else rate * many,
        burst=1.0 if rate is None else (said.get("burst") or 1.0) * many,
        max_in_flight=None if cap is None else cap * workers,
        ahead=None if ahead is None else ahead * workers,
        usual=_usual(said) if keyed else None,
        keys=_keys(said) if keyed else {},
        target=None if target is None else parse_target(target),
        importance=said.get("importance") or 0,
    )


def _usual(said: Said) -> KeyPlan:
    cap, rate, burst = (said.get(f"key_{name}") for name in ("cap", "rate", "burst"))
    return KeyPlan(said["key_weight"], cap, rate, burst or 1.0)


def _keys(said: Said) -> dict[str, KeyPlan]:
    usual = _usual(said)
    weights, caps, rates, bursts = (said.get(f"key_{name}") or {} for name in _OWN)
    return {
        key: KeyPlan(
            weights.get(key, usual.weight),
            caps.get(key, usual.max_in_flight) or None,
            rates.get(key, usual.rate) or None,
            bursts.get(key, usual.burst),
        )
        for key in sorted(weights.keys() | caps.keys() | rates.keys())
    }


_OWN = ("weights", "caps", "rates", "bursts")
_LONGEST = 1.0
_TRANSIT = 0.2
"""Seconds."""

_SLOT = ("node", "worker", "number")


# Messages ---------------------------------------------------------------------


def recorded_trace(attempts: DataFrame, processes: DataFrame, scenario: Scenario) -> DataFrame:
    """Attempts that finished and are known to have been published at some time.

    Arguments:
        scenario: as recorded: it says which queues are held back by more than slots.
    """
    placed = _placed(attempts, processes)
    handover, usual = _handover(scenario), F.lit(0.0)
    for known in (Window.partitionBy("pool"), Window.partitionBy("node", "worker")):
        usual = F.coalesce(F.mean("measured").over(known), usual)
    whole = (
        placed.withColumn("measured", handover)
        .withColumn("handover", F.coalesce("measured", usual))
        .where("runtime is not null and published is not null and queue is not null")
    )
    return whole.select(
        F.concat_ws("/", "id", "retries").alias("id"),
        "queue",
        F.coalesce("task", F.lit("")).alias("task"),
        "cost_key",
        "published",
        F.greatest("runtime", F.lit(0.0)).alias("runtime"),
        "key",
        "handover",
        F.coalesce(_transit(), F.lit(0.0)).alias("transit"),
    )


def _placed(attempts: DataFrame, processes: DataFrame) -> DataFrame:
    """Starts, each with when its slot was free."""
    mains = processes.select("node", F.col("boot").alias("worker"), "concurrency", "pool")
    workers = processes.select("node", "boot", "worker").join(
        F.broadcast(mains), ["node", "worker"]
    )
    by_start = Window.partitionBy("node", "worker").orderBy("started_at", "id", "retries")
    by_end = Window.partitionBy("node", "worker").orderBy("finished_at", "id", "retries")
    began = (
        attempts.where("started_at is not null")
        .join(workers, ["node", "boot"], "left")
        .withColumn("worker", F.coalesce("worker", "boot"))
        .withColumn("number", F.row_number().over(by_start))
    )
    freed = (
        began.where("finished_at is not null")
        .withColumn("number", F.row_number().over(by_end) + F.col("concurrency"))
        .select(*_SLOT, F.col("finished_at").alias("free_at"))
    )
    return began.join(freed, list(_SLOT), "left")


def _handover(scenario: Scenario) -> Column:
    """What a start cost, where that was measured."""
    plans = [*scenario.queues.items(), *((each.queue, each.plan) for each in scenario.changes)]
    limited = {queue for queue, plan in plans if plan.rate or plan.max_in_flight}
    cost = F.col("started_at") - F.greatest("free_at", "published")
    free = F.col("free_at").isNotNull() & ~F.col("queue").isin(*limited)
    return F.when(free & cost.between(0.0, _LONGEST), cost)


def _transit() -> Column:
    took = F.col("received") - F.col("published")
    return F.when((F.col("received") < F.col("free_at")) & took.between(0.0, _TRANSIT), took)


# Workers ----------------------------------------------------------------------


def recorded_scenario(
    events: DataFrame, settings: DataFrame, attempts: DataFrame, processes: DataFrame
) -> Scenario:
    """Return what the workers shared their slots by, and how many there were when.

    A custom cost cannot be replayed: each message then costs one.
    """
    last = attempts.where("queue is not null").groupBy("queue").agg(F.max("last_started_at"))
    return scenario_of(
        _said(events, settings, processes),
        {queue: at for queue, at in last.collect() if at is not None},
    )


def _said(events: DataFrame, settings: DataFrame, processes: DataFrame) -> list[Said]:
    """What was said by workers' main processes that they had not said before."""
    mains = processes.where("boot = worker")
    in_order = Window.partitionBy("boot", "kind", "queue").orderBy("at", "seq")
    is_away = F.coalesce(F.col("state") == "unassigned", F.lit(False))
    told = (
        events.where("kind in ('process', 'queue')")
        .join(F.broadcast(mains.select("boot")), "boot", "left_semi")
        .withColumn("news", F.struct("concurrency", is_away.alias("away")))
        .withColumn("old", F.lag("news").over(in_order))
        .where("not news <=> old")
        .select("boot", "kind", "queue", "at", "state", "concurrency")
    )
    kept = settings.select(
        "boot", F.lit("settings").alias("kind"), F.col("since").alias("at"), "queue", *SETTINGS
    )
    gone = mains.where("liveness <> 'alive'").select(
        "boot",
        F.lit("gone").alias("kind"),
        F.coalesce("ended_at", "last_at").alias("at"),
        F.lit(None).alias("queue"),
    )
    every = [row.asDict() for table in (told, kept, gone) for row in table.collect()]
    return sorted(every, key=lambda each: each["at"])
