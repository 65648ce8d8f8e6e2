"""Workers with tags of their own that tell each other what they serve (see `core.elsewhere`)."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from celery_fair.core.elsewhere import Elsewhere, Key
from celery_fair.core.tags import TenantTags

REPORT = 0.1
"""Seconds between two reports of a worker."""

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
        self.tags = [TenantTags(weights.__getitem__, self._spread) for _ in range(workers)]
        self.elsewhere = [Elsewhere(tags) for tags in self.tags]
        self.untold: list[Counter[Key]] = [Counter() for _ in self.tags]
        self.unheard: list[Counter[Key]] = [Counter() for _ in self.tags]
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
                self._report(worker)
                self._later(now + REPORT, worker, report=True)
            elif self._start(worker):
                self._later(now + self.seconds * self.chance.uniform(0.7, 1.3), worker)
        return self.started

    def _start(self, worker: int) -> bool:
        tags = self.tags[worker]
        while (key := tags.first()) is not None and self.left and not self.left[key[0]]:
            tags.drop(*key)
        if key is None:
            return False
        if self.left is not None:
            self.left[key[0]] -= 1
        tags.serve(*key, 1.0, self.left is None or self.left[key[0]] > 0)
        self.elsewhere[worker].served(1.0)
        self.untold[worker][key] += 1
        self.started[key[0]] += 1
        return True

    def _report(self, worker: int) -> None:
        untold, self.untold[worker] = self.untold[worker], Counter()
        for other, unheard in enumerate(self.unheard):
            if other != worker:
                unheard.update(untold)
        heard, self.unheard[worker] = self.unheard[worker], Counter()
        self.elsewhere[worker].reported(heard.items())


def error(started: Counter[str]) -> float:
    """Return by how much of its share a flood was off, at the most."""
    total = started.total()
    return max(
        abs(started[key] / total / (weight / TOGETHER) - 1) for key, weight in FLOODS.items()
    )


@pytest.mark.parametrize(("seconds", "slots"), [(0.005, 8), (0.05, 1), (0.2, 8), (0.3, 1)])
def test_shares_of_floods(seconds: float, slots: int) -> None:
    """After 100 messages of the lightest."""
    worlds = [World(FLOODS, slots=slots, seconds=seconds, seed=seed) for seed in range(3)]
    errors = [error(world.run(100 * round(TOGETHER))) for world in worlds]
    assert sorted(errors)[1] <= 0.02
    assert max(errors) <= 0.03


def test_without_a_word_chance_adds_up() -> None:
    worlds = [World(FLOODS, seconds=0.05, told=False, seed=seed) for seed in range(3)]
    assert max(error(world.run(100 * round(TOGETHER))) for world in worlds) > 0.03


@pytest.mark.parametrize("seconds", [0.005, 0.3])
def test_the_nights_work_of_many_tenants(seconds: float) -> None:
    names = dict.fromkeys([f"tenant{number}" for number in range(300)], 1.0)
    started = World(names, seconds=seconds, backlog=100).run(15_000)
    assert min(started.values()) >= 45
    assert max(started.values()) <= 55


def test_a_key_that_had_more_elsewhere_waits_here() -> None:
    tags = TenantTags(lambda _: 1.0, lambda: 1.0)
    elsewhere = Elsewhere(tags)
    tags.arrive("a")
    tags.arrive("b")
    elsewhere.reported([(("a", ""), 3.0)])  # nothing was served here, which takes all of it
    assert elsewhere.outstanding == {}
    order = []
    for _ in range(4):
        key = tags.first()
        assert key is not None
        tags.serve(*key, 1.0, True)
        order.append(key[0])
    assert order == ["b", "b", "b", "a"]


def test_who_serves_as_well_takes_a_part_at_a_time() -> None:
    tags = TenantTags(lambda _: 1.0, lambda: 1.0)
    elsewhere = Elsewhere(tags)
    tags.arrive("a")
    tags.serve("a", "", 1.0, True)
    elsewhere.served(1.0)
    elsewhere.reported([(("a", ""), 1.0)])
    assert elsewhere.outstanding == {("a", ""): pytest.approx(1 - 0.25 / 2)}
    assert tags.tenants.tag("a") == pytest.approx(1 + 0.25 / 2)


def test_of_who_has_nothing_here_all_counts_at_once() -> None:
    tags = TenantTags(lambda _: 1.0, lambda: 1.0)
    elsewhere = Elsewhere(tags)
    tags.arrive("a")
    tags.serve("a", "", 1.0, True)
    elsewhere.served(1.0)
    elsewhere.reported([(("quiet", ""), 3.0)])
    assert elsewhere.outstanding == {}
    tags.arrive("quiet")
    assert tags.tenants.tag("quiet") == pytest.approx(tags.tenants.virtual + 3)


def test_parts_that_had_more_elsewhere_wait_here() -> None:
    tags = TenantTags(lambda _: 1.0, lambda: 1.0)
    for part in ("one", "two"):
        tags.arrive("a", part)
    Elsewhere(tags).reported([(("a", "one"), 2.0)])
    order = []
    for _ in range(3):
        key = tags.first()
        assert key is not None
        tags.serve(*key, 1.0, True)
        order.append(key[1])
    assert order == ["two", "two", "one"]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.floats(-5, 5), st.booleans()), max_size=40),
    st.integers(0, 3),
)
@settings(max_examples=100, deadline=None)
def test_all_of_it_counts_in_the_end_and_nothing_is_kept(
    reports: list[tuple[str, float, bool]], slots: int
) -> None:
    """Whatever was told; a tag is what was served here and there, by weight."""
    tags = TenantTags(lambda _: 2.0, lambda: 1.0)
    elsewhere = Elsewhere(tags)
    for key in "abc":
        tags.arrive(key)
    total = dict.fromkeys("abc", 0.0)
    for key, cost, serves in reports:
        if serves and slots:
            tags.serve(key, "", 1.0, True)
            elsewhere.served(1.0)
            total[key] += 1.0
        total[key] += cost
        elsewhere.reported([((key, ""), cost)])
    for _ in range(40):  # as long as nothing is served here
        elsewhere.reported([])
    assert elsewhere.outstanding == {}
    for key, cost in total.items():
        assert tags.tenants.tag(key) == pytest.approx(cost / 2, abs=1e-9)
