"""Where every published message went, and what must hold of that.

The columns add up: each message is in one of them. A message that became a
dead letter counts there, whether or not it had started.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields

from tests.records import Records

COLUMNS = (
    "messages",
    "started twice",
    "finished",
    "dead-lettered",
    "(had started)",
    "started-unfinished",
    "acked-never-started",
)


class LawBrokenError(AssertionError):
    """A message started twice, or is gone and nobody may say so."""


@dataclass(frozen=True)
class Account:
    """Ids, by what became of them."""

    published: frozenset[str]
    started_twice: frozenset[str]
    finished: frozenset[str]
    """Finished, and nothing else."""
    dead: frozenset[str]
    """Dead-lettered."""
    dead_started: frozenset[str]
    """Those of the dead letters that had started."""
    unfinished: frozenset[str]
    """Started, neither finished nor dead-lettered."""
    never_started: frozenset[str]
    """None of all that, and no longer at the broker."""
    dead_twice: frozenset[str]
    """More than one dead letter of the same message: a worker may die amid the move."""

    @classmethod
    def of(cls, ids: Collection[str], records: Records, dead: Mapping[str, int]) -> Account:
        """Take stock, when nothing runs any more and the queues are empty."""
        starts = records.started.times(ids)
        ends = set(records.finished.times(ids))
        buried = set(ids) & set(dead)
        return cls(
            published=frozenset(ids),
            started_twice=frozenset(task for task, times in starts.items() if times > 1),
            finished=frozenset(ends - buried),
            dead=frozenset(buried),
            dead_started=frozenset(buried & set(starts)),
            unfinished=frozenset(set(starts) - ends - buried),
            never_started=frozenset(set(ids) - set(starts) - buried),
            dead_twice=frozenset(task for task in buried if dead[task] > 1),
        )

    def __add__(self, other: Account) -> Account:
        pairs = (getattr(self, f.name) | getattr(other, f.name) for f in fields(self))
        return Account(*pairs)

    @property
    def lost(self) -> frozenset[str]:
        """Neither finished nor dead-lettered: what only the account can name."""
        return self.unfinished | self.never_started

    def check(self, may_lose: float = 0, may_bury: bool = True) -> None:
        """Raise, with all ids, unless the laws hold.

        Arguments:
            may_lose: how many messages the fault may cost.
            may_bury: whether it may lead to dead letters.
        """
        wrong = []
        if self.started_twice:
            wrong.append("started twice")
        parts = (self.finished, self.dead, self.unfinished, self.never_started)
        if sum(map(len, parts)) != len(self.published):
            wrong.append("the account does not close")
        if len(self.lost) > may_lose:
            wrong.append(f"{len(self.lost)} lost, where at most {may_lose} may be")
        if self.dead and not may_bury:
            wrong.append("dead letters, where none may be")
        if wrong:
            raise LawBrokenError(f"{'; '.join(wrong)}\n{self.names()}")

    def names(self) -> str:
        """Every id that is not simply finished, by what became of it."""
        shown = {f.name: sorted(getattr(self, f.name)) for f in fields(self)}
        del shown["published"], shown["finished"]
        return "\n".join(f"  {name} ({len(ids)}): {', '.join(ids)}" for name, ids in shown.items())

    def row(self) -> Counter[str]:
        """The figures, by the names of `COLUMNS`."""
        parts = (
            self.published,
            self.started_twice,
            self.finished,
            self.dead,
            self.dead_started,
            self.unfinished,
            self.never_started,
        )
        return Counter(dict(zip(COLUMNS, map(len, parts), strict=True)))

    def __str__(self) -> str:
        return ", ".join(f"{count} {name}" for name, count in self.row().items())
