"""Shares among workers with tags of their own that tell each other what they serve, simulated.

Of `celery_fair.core.keys.elsewhere`, which `tests/core` looks at in parts.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Mapping

import pytest

from celery_fair.core.keys.elsewhere import Elsewhere
from celery_fair.core.keys.tags import TenantTags

REPORT = 0.1
"""Seconds between two reports of a worker."""

OLD = 2.0
"""Seconds for which it is kept of everybody what was heard."""

FLOODS = {f"key{number}": 1.0 + number % 10 for number in range(20)}
TOGETHER = sum(FLOODS.values())


class World:
    """Some workers, whose keys never run out, or do after so many messages.

    Arguments:
        seconds: what a message takes, on average.
        told: whether they tell each other what they serve.
    """

    def __init__(
        self,
        weights: Mapping[str, float],
        *,
        workers: int = 8,
        slots: int = 1,
        seconds: float,
        told: bool = True,
        backlog: int | None = None,
        seed: int = 1,
    ) -> None:
        self.chance = random.Random(seed)
        self.left = None if backlog is None else dict.fromkeys(weights, backlog)
        self.seconds = seconds
        self.started: Counter[str] = Counter()
        self.tags = [
            TenantTags(lambda key: weights.get(key, 1.0), self._spread) for _ in range(workers)
        ]
        self.elsewhere = [Elsewhere(tags.tenants) for tags in self.tags]
        self.untold: list[Counter[str]] = [Counter() for _ in self.tags]
        self.unheard: list[list[tuple[float, Counter[str]]]] = [[] for _ in self.tags]
        self.events: list[tuple[float, int, bool]] = []
        for worker, tags in enumerate(self.tags):
            for key in self.chance.sample(list(weights), len(weights)):
                tags.arrive(key)
            for _ in range(slots):
                self._later(self.chance.uniform(0, seconds), worker)
            if told:
                self._later(REPORT * (worker + 1) / workers, worker, report=True)

    def _spread(self) -> float:
        return 0.5 + self.chance.random()

    def _later(self, at: float, worker: int, report: bool = False) -> None:
        heapq.heappush(self.events, (at, worker, report))

    def run(self, messages: int) -> Counter[str]:
        """Return how many were started by key, of so many."""
        while self.started.total() < messages:
            now, worker, is_report = heapq.heappop(self.events)
            if is_report:
                self._report(worker, now)
                self._later(now + REPORT, worker, report=True)
            elif self._start(worker, now):
                self._later(now + self.seconds * self.chance.uniform(0.7, 1.3), worker)
        return self.started

    def _start(self, worker: int, now: float) -> bool:
        """A slot is free: it listens, and starts the next."""
        self._hear(worker, now)
        tags = self.tags[worker]
        while (key := tags.first()) is not None and self.left and not self.left[key[0]]:
            tags.drop(*key)
        if key is None:
            return False
        self._serve(worker, key)
        return True

    def _hear(self, worker: int, now: float) -> None:
        heard, self.unheard[worker] = self.unheard[worker], []
        if heard:
            lately, before = Counter[str](), Counter[str]()
            for at, served in heard:
                (lately if at >= now - OLD else before).update(served)
            self.elsewhere[worker].reported(lately, before)

    def _serve(self, worker: int, key: tuple[str, str]) -> None:
        tags = self.tags[worker]
        if self.left is not None:
            self.left[key[0]] -= 1
        tags.serve(*key, 1.0, self.left is None or self.left[key[0]] > 0)
        self.elsewhere[worker].served(1.0)
        self.untold[worker][key[0]] += 1
        self.started[key[0]] += 1

    def _report(self, worker: int, now: float) -> None:
        untold, self.untold[worker] = self.untold[worker], Counter()
        for other, unheard in enumerate(self.unheard):
            if other != worker:
                unheard.append((now, untold))


def error(started: Counter[str]) -> float:
    """Return by how much of its share a flood was off, at the most."""
    total = started.total()
    return max(
        abs(started[key] / total / (weight / TOGETHER) - 1) for key, weight in FLOODS.items()
    )


@pytest.mark.parametrize(("seconds", "slots"), [(0.005, 8), (0.05, 1), (0.2, 8)])
def test_shares_of_floods(seconds: float, slots: int) -> None:
    """After 100 messages of the lightest."""
    worlds = [World(FLOODS, slots=slots, seconds=seconds, seed=seed) for seed in range(3)]
    errors = [error(world.run(100 * round(TOGETHER))) for world in worlds]
    assert sorted(errors)[1] < 0.0201  # two of 100 messages
    assert max(errors) <= 0.03


def test_shares_where_a_slot_is_seldom_free() -> None:
    """What was told meanwhile counts all the same."""
    assert error(World(FLOODS, seconds=5.0).run(50 * round(TOGETHER))) <= 0.025


@pytest.mark.wide
def test_without_a_word_chance_adds_up() -> None:
    worlds = [World(FLOODS, seconds=0.05, told=False, seed=seed) for seed in range(3)]
    assert max(error(world.run(100 * round(TOGETHER))) for world in worlds) > 0.03


@pytest.mark.wide
@pytest.mark.parametrize(("seconds", "tenants"), [(0.005, 200), (0.05, 100)])
def test_the_nights_work_of_many_tenants(seconds: float, tenants: int) -> None:
    names = dict.fromkeys([f"tenant{number}" for number in range(tenants)], 1.0)
    started = World(names, seconds=seconds, backlog=100).run(50 * tenants)
    assert min(started.values()) >= 45
    assert max(started.values()) <= 55


def alike(_: str) -> float:
    return 1.0


class Unseen(World):
    """Nobody knows whose messages a lane has, until one has come from it."""

    def __init__(self, tenants: int, told: bool) -> None:
        names = [f"tenant{number:03}" for number in range(tenants)]
        super().__init__(dict.fromkeys(names, 1.0), seconds=0.02, told=told, backlog=100)
        self.tags = [TenantTags(alike, self._spread) for _ in self.tags]
        self.elsewhere = [Elsewhere(tags.tenants, is_nobodys) for tags in self.tags]
        for tags in self.tags:
            for name in names:
                tags.arrive(f"~{self.chance.random():.9f} {name}")

    def _start(self, worker: int, now: float) -> bool:
        self._hear(worker, now)
        tags = self.tags[worker]
        key = tags.first()
        if key is not None and is_nobodys(key[0]):
            tags.settle(tags.serve(*key, 1.0, True), -1.0)
            tags.drop(*key)
            tenant = key[0].partition(" ")[2]
            assert self.left is not None
            if self.left[tenant]:  # it is served out of its turn, as its message is here
                tags.arrive(tenant)
                self._serve(worker, (tenant, ""))
            return True
        return super()._start(worker, now)


def is_nobodys(key: str) -> bool:
    return key.startswith("~")


def test_tenants_that_are_found_out_one_by_one() -> None:
    """Who is served out of turn sets those back that are known no more than those that are not."""
    started = Unseen(100, told=True).run(50 * 100)
    assert min(started.values()) >= 45
    assert max(started.values()) <= 55
