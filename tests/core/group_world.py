"""A group whose members come, go, die, sleep, and whose clocks and store fail: simulated.

Virtual time, one thread, a seed: every run can be repeated. Invariant 1 is looked at after every
step, by what each member would do at that moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from random import Random

from celery_fair.core.groups.membership import STOPS, Group, Terms, living, turn
from celery_fair.core.groups.tenure import Tenure

TERMS = Terms(lease=6.0)
DRIFT = 0.02
"""Of a clock: over a lease it is less than the margin."""


class Member:
    """One worker: a clock of its own, and work that takes a while to end."""

    def __init__(self, world: World, number: int) -> None:
        self.world, self.name = world, f"m{number:04}"
        self.rate = 1 + world.draw.uniform(-DRIFT, DRIFT)
        self.offset = world.draw.uniform(-1e6, 1e6)
        self.tenure = Tenure(TERMS)
        self.running: dict[str, float] = {}
        self.asleep_until = 0.0
        self.stops_until: float | None = None  # then its last task ends
        self.renewed = float("-inf")
        self.told: Mapping[str, int] = {}

    @property
    def clock(self) -> float:
        return self.offset + self.rate * self.world.now

    @property
    def consumes(self) -> dict[str, int]:
        """What it would start messages of now: nothing while it sleeps, or after its lease."""
        if self.world.now < self.asleep_until or self.clock >= self.tenure.until:
            return {}
        return self.tenure.owned

    def runs(self, partition: str) -> bool:
        return self.running.get(partition, 0.0) > self.world.now

    def act(self) -> None:
        world, now = self.world, self.clock
        self.tenure.lapsed(now)
        if world.store_is_away:
            return
        if self.stops_until is None:
            holds = self.tenure.holds(now, self.runs)
            taken = turn(world.group, self.name, world.now, TERMS, holds)
        elif world.now < self.stops_until:
            owned = world.group.owned_by(self.name)
            taken = turn(world.group, self.name, world.now, TERMS, owned, broker=STOPS)
            if self.name not in living(world.group, world.now):
                self.running, owned = {}, {}  # what runs is the token's business
            assert taken.group.owned_by(self.name) == owned
        else:
            self.leave()
            world.members.remove(self)
            return
        due = world.now >= self.renewed + TERMS.heartbeat
        if not (due or taken.changed or taken.granted != self.told):
            return
        self.renewed, self.told = world.now, taken.granted
        world.plans += taken.group.plan != world.group.plan
        world.group = taken.group
        change = self.tenure.took(taken, now, now)
        for partition in change.revoked:
            self.running[partition] = world.now + world.draw.uniform(0, 0.9 * TERMS.patience)

    def stop(self, until: float) -> None:
        self.running |= dict.fromkeys(self.tenure.left(self.clock), until)
        self.stops_until = until

    def leave(self) -> None:
        world = self.world
        self.tenure.left(self.clock)
        world.group = turn(world.group, self.name, world.now, TERMS, leaving=True).group


class World:
    def __init__(self, members: int, partitions: int, seed: int) -> None:
        self.draw = Random(seed)
        self.now = 0.0
        self.plans = self.made = 0
        self.store_is_away = False
        self.members: list[Member] = []
        self._first = frozenset(f"p{n:04}" for n in range(partitions))
        self.group = Group(active=self._first)
        self._most = members
        for _ in range(members):
            self.join()

    def join(self) -> None:
        if len(self.members) < self._most + 2:
            self.members.append(Member(self, self.made))
            self.made += 1

    def lose(self, number: int, warmly: bool) -> None:
        """A member is gone, or is killed; one is left."""
        if (member := self._one_of_many(number)) is not None:
            self.members.remove(member)
            if warmly and not self.store_is_away:
                member.leave()

    def stop(self, number: int, seconds: float) -> None:
        """A member stops: it only waits for its tasks to end."""
        if (member := self._one_of_many(number)) is not None:
            member.stop(self.now + seconds)

    def _one_of_many(self, number: int) -> Member | None:
        stay = [member for member in self.members if member.stops_until is None]
        return stay[number % len(stay)] if len(stay) > 1 else None

    def nap(self, number: int, seconds: float) -> None:
        """A member stands still."""
        self.members[number % len(self.members)].asleep_until = self.now + seconds

    def cut(self) -> None:
        """The store is away, or is back."""
        self.store_is_away = not self.store_is_away

    def add(self, number: int) -> None:
        """What was taken out is put back; else there is a new partition, or there are as before."""
        group, is_large = self.group, len(self.group.active) > len(self._first) + 2
        if group.out:
            self._change(group.putting_back(group.out))
        else:
            self._change(group.of(self._first if is_large else group.active | {f"q{number}"}))

    def remove(self, number: int) -> None:
        """A partition is taken out; one is left."""
        names = sorted(self.group.active)
        if len(names) > 1:
            self._change(self.group.taking_out({names[number % len(names)]}))

    def rebalance(self) -> None:
        self._change(self.group.unplanned())

    def _change(self, group: Group) -> None:
        if not self.store_is_away:
            self.group = group

    def step(self) -> None:
        """A second, in which everybody who is awake takes a turn, in any order."""
        self.now += 1.0
        for member in self.draw.sample(self.members, len(self.members)):
            if self.now >= member.asleep_until:
                member.act()
        self.check()

    def check(self) -> None:
        consumed = Counter(p for member in self.members for p in member.consumes)
        assert max(consumed.values(), default=0) <= 1, consumed.most_common(3)
        for member in self.members:
            if member.clock < member.tenure.until:  # else what runs is the token's business
                ending = {p for p in member.running if member.runs(p)} - member.tenure.owned.keys()
                assert consumed.keys().isdisjoint(ending)
            for partition, token in member.consumes.items():
                grant = self.group.grants[partition]
                assert (grant.owner, grant.token) == (member.name, token)

    def trouble(self) -> None:
        """Something happens to somebody, or to the store, or to the partitions."""
        number, seconds = self.draw.randrange(10**6), self.draw.uniform(0, 2 * TERMS.lease)
        self.draw.choice(
            [
                self.join,
                partial(self.lose, number, True),
                partial(self.lose, number, False),
                partial(self.stop, number, seconds),
                partial(self.nap, number, seconds),
                self.cut,
                partial(self.add, number),
                partial(self.remove, number),
                self.rebalance,
            ]
        )()

    def settle(self) -> None:
        """Long enough for leases to run out and for work to end; then everything is as it must."""
        self.store_is_away = False
        for _ in range(int(3 * TERMS.lease + 2 * TERMS.patience) + 2):
            self.step()
        consumed = {p: m.name for m in self.members for p in m.consumes}
        assert consumed.keys() == self.group.active
        counts = Counter(dict.fromkeys((m.name for m in self.members), 0))
        counts.update(consumed.values())
        assert max(counts.values()) - min(counts.values()) <= 1


def trouble(members: int, partitions: int, rebalances: int) -> World:
    """Let things happen until there have been so many plans; everything is right in the end."""
    world = World(members, partitions, seed=members)
    world.settle()
    while world.plans < rebalances:
        for _ in range(world.draw.randrange(1, 6)):
            world.trouble()
            for _ in range(world.draw.randrange(4)):
                world.step()
        if world.draw.random() < 0.2:
            world.settle()
    world.settle()
    return world
