"""Members of a group and their store, in virtual time: what they ask it, and when.

What a member does with an answer is the worker's own code (`celery_fair.core`); when it asks, and
how often it tries again, is as in `celery_fair.groups.keeper`. The store takes a while to answer,
and a member to take its turn, so that others may have written before it does: it is refused then.
No task runs: what is revoked is given up as soon as the member looks.
"""

from collections.abc import Generator, Mapping
from heapq import heappop, heappush
from itertools import count
from random import Random

from celery_fair.core.groups.membership import Group, Terms, Turn, turn
from celery_fair.core.groups.tenure import Tenure
from celery_fair.groups.keeper import ATTEMPTS, POLL, longest_pause

__all__ = ["Member", "Model"]

LOOK = 0.1
RECOVERY = 30.0
"""Seconds, by default, until a member that has lost its lease tries again."""
ANSWER = 0.0005
"""Seconds to the store, or back."""
READING = 10e-6
"""Seconds for each partition to read a document, take a turn and write it down, as measured."""

Steps = Generator[float, None, None]
"""Of a member; each says after how many seconds the next is due."""


class Model:
    """A group, its store with what was asked of it, and the members that live.

    Attributes:
        now: virtual seconds.
    """

    def __init__(self, partitions: int, terms: Terms, seed: int) -> None:
        self.terms = terms
        self.draw = Random(seed)
        self.now = 0.0
        self.members: list[Member] = []
        self.reads = self.writes = self.refused = self.given_up = 0
        self.version = 0
        self.group = Group(active=frozenset(f"p{n:04}" for n in range(partitions)))
        self._due: list[tuple[float, int, Steps]] = []
        self._order = count()

    def join(self) -> None:
        member = Member(self, f"m{next(self._order):06}")
        self.members.append(member)
        self._begin(member.turns())
        self._begin(member.looks())

    def leave(self) -> None:
        """Somebody's tasks have ended, and it says so."""
        self._begin(self._one_less().leaves())

    def kill(self) -> None:
        self._one_less()

    def _one_less(self) -> "Member":
        member = self.members.pop(self.draw.randrange(len(self.members)))
        member.lives = False
        return member

    def _begin(self, steps: Steps) -> None:
        heappush(self._due, (self.now, next(self._order), steps))

    def step(self) -> None:
        """Do what is due next."""
        self.now, _, steps = heappop(self._due)
        wait = next(steps, None)
        if wait is not None:
            heappush(self._due, (self.now + wait, next(self._order), steps))

    def write(self, version: int, group: Group) -> bool:
        if self.version != version:
            self.refused += 1
            return False
        self.writes += 1
        self.version, self.group = version + 1, group
        return True

    @property
    def is_settled(self) -> bool:
        """Whether each partition is consumed by the member that is planned for it."""
        group = self.group
        return (
            group.members.keys() == {member.name for member in self.members}
            and group.plan.keys() == group.active
            and {p: m.name for m in self.members for p in m.tenure.owned} == group.plan
        )


class Member:
    """One worker: the thread that takes turns, and the loop that looks at what they gave."""

    def __init__(self, model: Model, name: str) -> None:
        self.name = name
        self.lives = True
        self.tenure = Tenure(model.terms)
        self._model = model
        self._news: list[tuple[Turn, float]] = []
        self._held: frozenset[str] = frozenset()
        self._told: Mapping[str, int] = {}
        self._renewed = float("-inf")

    def turns(self) -> Steps:
        while self.lives:
            if (yield from self._turn(leaving=False)):
                yield POLL
            else:
                self._model.given_up += 1
                lost = self._model.now >= self._renewed + self._model.terms.safe
                yield RECOVERY if lost else POLL

    def looks(self) -> Steps:
        model, tenure = self._model, self.tenure
        yield model.draw.uniform(0, LOOK)
        while self.lives:
            tenure.lapsed(model.now)
            for taken, asked in self._news:
                tenure.took(taken, asked, model.now)
            self._news.clear()
            self._held = tenure.holds(model.now, lambda partition: False)
            yield LOOK

    def leaves(self) -> Steps:
        self._held = frozenset()
        yield from self._turn(leaving=True)

    def _turn(self, leaving: bool) -> Generator[float, None, bool]:
        """Return whether it was not given up."""
        model = self._model
        for attempt in range(ATTEMPTS):
            asked = model.now
            yield ANSWER
            version, group, now = model.version, model.group, model.now
            model.reads += 1
            yield ANSWER + READING * len(group.active)
            held = group.owned_by(self.name) if self._news and not leaving else self._held
            taken = turn(group, self.name, now, model.terms, held, leaving)
            due = leaving or asked >= self._renewed + model.terms.heartbeat
            if not taken.changed and not due and taken.granted == self._told:
                return True
            yield ANSWER
            if not (self.lives or leaving):
                return True
            if model.write(version, taken.group):
                self._renewed = asked
                self._news.append((taken, asked))
                self._told = taken.granted
                return True
            yield ANSWER + model.draw.uniform(0, longest_pause(attempt))
        return False
