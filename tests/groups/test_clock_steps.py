"""A store whose clock is put forward, by any length: no member that is alive loses anything by it.

Members take their turns by hand, in virtual time.
"""

from __future__ import annotations

from random import Random

import pytest

from celery_fair.core.groups.membership import Terms
from celery_fair.groups import Snapshot, keeper
from celery_fair.groups.document import decoded
from celery_fair.groups.keeper import POLL, Keeper, Taken
from tests.groups.memory_store import MemoryStore

PARTITIONS = [f"customers.{number}" for number in range(12)]
LATE = 0.4
"""Seconds that a member comes later than it wanted, at the most."""


class World(MemoryStore):
    """A store, the time, and members that look at it, each at times of its own."""

    def __init__(self, lease: float, members: int, seed: int) -> None:
        super().__init__()
        self.now = self.ahead = 0.0
        self.draw = Random(seed)
        self._members = [
            Keeper(self, "g", PARTITIONS, f"m{n}", Terms(lease), 30.0) for n in range(members)
        ]
        self._next = [self.draw.uniform(0, POLL) for _ in self._members]

    def read(self, group: str) -> Snapshot:
        return super().read(group)._replace(now=self.now + self.ahead)

    def owned(self) -> dict[str, dict[str, int]]:
        """By member, its partitions and their tokens."""
        group = decoded(self.read("g").text)
        return {name: group.owned_by(name) for name in group.members}

    def turn(self) -> None:
        """Of whoever is next."""
        self.now = min(self._next)
        number = self._next.index(self.now)
        self._next[number] += POLL + self.draw.uniform(0, LATE)
        member = self._members[number]
        member._take()
        for news in member.news():
            assert isinstance(news, Taken)
            member.holds(frozenset(news.turn.granted))

    def pass_by(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            self.turn()


@pytest.mark.parametrize("lease", [4.0, 60.0])
@pytest.mark.parametrize("part", [0.1, 0.5, 0.6, 0.75, 0.9, 0.95, 0.99, 1.0, 60.0])
@pytest.mark.parametrize("seed", range(3))
def test_nobody_loses_anything(
    lease: float, part: float, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Be it renewed soon after the step, or end soon after it."""
    world = World(lease, 6, seed)
    monkeypatch.setattr(keeper, "elapsed", lambda: world.now)
    world.pass_by(10 + world.draw.uniform(0, Terms(lease).heartbeat))
    before = world.owned()
    assert [len(owned) for owned in before.values()] == [2] * 6

    world.ahead += part * lease
    until = world.now + lease
    while world.now < until:
        world.turn()
        assert world.owned() == before


def test_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """One after another, each of them smaller than what is noticed, or before the last is over."""
    lease = 60.0
    world = World(lease, 3, seed=0)
    monkeypatch.setattr(keeper, "elapsed", lambda: world.now)
    world.pass_by(10)
    before = world.owned()
    for step in [2.0] * 100 + [world.draw.uniform(0, lease) for _ in range(100)]:
        world.ahead += step
        world.pass_by(1)
        assert world.owned() == before


def test_who_died_before_the_step_is_not_believed_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lease = 60.0
    world = World(lease, 2, seed=0)
    monkeypatch.setattr(keeper, "elapsed", lambda: world.now)
    world.pass_by(10)
    world._members.pop()
    world._next.pop()
    world.ahead += lease
    stepped = world.now
    while len(world.owned()) == 2:
        world.turn()
    assert world.now - stepped < Terms(lease).margin + 3 * POLL
