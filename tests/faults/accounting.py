"""Where every published message went, and what must hold of that.

Four parties are asked, none of which knows of another: the publisher, for what the broker has
confirmed; the tasks, for their starts and ends; the queue of dead letters; and the queues
themselves, for what still waits. What is published and nowhere to be found is missing, and counts
against what a fault may cost.

The columns add up: each message is in one of them. A message that became a
dead letter counts there, whether or not it had started.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import NamedTuple

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


class Allowed(NamedTuple):
    """What a fault may lead to at the most."""

    started: float = 0
    """Messages that have started, and are neither finished nor dead letters."""
    unstarted: float = 0
    """Messages that nothing is known of."""
    lost: float = 0
    """Both together."""
    dead: float = math.inf
    """Dead letters."""
    dead_started: float = math.inf
    """Dead letters of messages that have started."""
    dead_twice: float = 0
    """Messages with two dead letters."""
    twice: float = 0
    """Messages that have started twice: only those of ordinary tasks."""


NOTHING = Allowed()
EVERYTHING = Allowed(*[math.inf] * 6)


@dataclass(frozen=True)
class Account:
    """Ids, by what became of them."""

    published: frozenset[str]
    """As the broker has confirmed."""
    started_twice: frozenset[str]
    finished: frozenset[str]
    """Finished, and nothing else."""
    dead: frozenset[str]
    """Dead-lettered."""
    dead_started: frozenset[str]
    """Those of the dead letters that had started."""
    unfinished: frozenset[str]
    """Started, neither finished nor dead-lettered, and no longer at the broker."""
    never_started: frozenset[str]
    """None of all that, and no longer at the broker."""
    waiting: frozenset[str]
    """Still in their queue, or held by a worker, as the broker says."""
    dead_twice: frozenset[str]
    """More than one dead letter of the same message: a worker may die amid the move."""

    @classmethod
    def of(
        cls,
        ids: Collection[str],
        records: Records,
        dead: Mapping[str, int],
        waiting: Collection[str],
    ) -> Account:
        """Take stock, when nothing runs any more.

        Arguments:
            ids: of what was published.
            records: of the tasks.
            dead: how many dead letters there are, by id.
            waiting: what is still at the broker.
        """
        starts = records.started.times(ids)
        ends = set(records.finished.times(ids))
        buried, kept = set(ids) & set(dead), set(ids) & set(waiting)
        missing = set(ids) - ends - buried - kept
        return cls(
            published=frozenset(ids),
            started_twice=frozenset(task for task, times in starts.items() if times > 1),
            finished=frozenset(ends - buried),
            dead=frozenset(buried),
            dead_started=frozenset(buried & set(starts)),
            unfinished=frozenset(missing & set(starts)),
            never_started=frozenset(missing - set(starts)),
            waiting=frozenset(kept),
            dead_twice=frozenset(task for task in buried if dead[task] > 1),
        )

    def __add__(self, other: Account) -> Account:
        pairs = (getattr(self, f.name) | getattr(other, f.name) for f in fields(self))
        return Account(*pairs)

    @property
    def lost(self) -> frozenset[str]:
        """Nowhere to be found."""
        return self.unfinished | self.never_started

    def check(self, allowed: Allowed = NOTHING) -> None:
        """Raise, with all ids, unless the laws hold."""
        wrong = list(self._wrong(allowed))
        if wrong:
            raise LawBrokenError(f"{'; '.join(wrong)}\n{self.names()}")

    def _wrong(self, allowed: Allowed) -> Iterator[str]:
        if self.waiting:
            yield "still at the broker, where all is to be over"
        if both := self.waiting & (self.finished | self.dead):
            yield f"over, and still at the broker: {sorted(both)}"
        for what, ids, most in (
            ("started twice", self.started_twice, allowed.twice),
            ("started and lost", self.unfinished, allowed.started),
            ("lost, and never started", self.never_started, allowed.unstarted),
            ("lost", self.lost, allowed.lost),
            ("dead letters", self.dead, allowed.dead),
            ("dead letters of what has started", self.dead_started, allowed.dead_started),
            ("dead letters twice", self.dead_twice, allowed.dead_twice),
        ):
            if len(ids) > most:
                yield f"{len(ids)} {what}, where at most {most} may be"

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
