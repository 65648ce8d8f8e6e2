"""The dead letters of an app: looked at, replayed, purged.

A letter is named by its task's id, or by its digest. Looking changes nothing.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from celery_fair.brokers.broker import letters_of
from celery_fair.dead_letters.death import DUPLICATE
from celery_fair.dead_letters.letter import Letter
from celery_fair.dead_letters.letter_queue import LetterQueue
from celery_fair.dead_letters.plan import Copies, Plan, Report
from celery_fair.dead_letters.replay import purge, replay
from celery_fair.headers import PUBLISHED
from celery_fair.ledger import ledger_at
from celery_fair.operate.broker import connected
from celery_fair.operate.letter_body import plain, readable
from celery_fair.operate.text import escaped
from celery_fair.settings import Settings
from celery_fair.tasks import claimable, is_of

_CLOSE = 1e-3
"""Seconds between two times of publication that are the same one."""


@contextmanager
def opened(app: Any) -> Iterator[LetterQueue]:
    """Give an app's dead letters, connected for as long as the context lasts.

    Raises:
        OperateError: there is no connection, or it is lost.
        celery.exceptions.ImproperlyConfigured: the settings are wrong.
    """
    with connected(app) as connection:
        yield letters_of(app, connection)


@dataclass(frozen=True)
class Filters:
    """All that are given must fit; of one that is given several times, one of them."""

    reasons: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    since: datetime | None = None
    before: datetime | None = None

    def __bool__(self) -> bool:
        """Whether any is given."""
        return self != Filters()

    def fit(self, letter: Letter) -> bool:
        """Whether a letter is meant."""
        return (
            (not self.reasons or letter.reason in self.reasons)
            and (not self.tasks or letter.task in self.tasks)
            and (not self.queues or letter.queue in self.queues)
            and self._is_of_the_time(letter.time)
        )

    def _is_of_the_time(self, time: datetime | None) -> bool:
        if time is None:
            return not (self.since or self.before)
        return (not self.since or time >= self.since) and (not self.before or time < self.before)


_LISTED = ("id", "digest", "task", "queue", "reason", "may_have_started", "time")


def _entry(letter: Letter) -> dict[str, Any]:
    """Return what a list shows of a letter, without its body."""
    worker, detail = letter.text("x-fair-worker"), letter.text("x-fair-detail")
    return {name: getattr(letter, name) for name in _LISTED} | {"worker": worker, "detail": detail}


BY: dict[str, Callable[[Letter], str]] = {
    "reason": lambda letter: letter.reason or "",
    "task": lambda letter: letter.task or "",
    "queue": lambda letter: letter.queue or "",
    "hour": lambda letter: letter.time.strftime("%Y-%m-%d %H:00") if letter.time else "",
}
"""What letters are counted by; "" for those that do not say. Hours are UTC."""


@dataclass
class Found:
    """Letters that were looked for.

    Attributes:
        letters: the oldest of them, what a list shows of each.
        count: how many there are.
        may_have_started: of these, how many may have, or do not say.
        counts: how many there are of each reason, task, queue and hour.
        looked_at: letters, whether they fit or not.
    """

    letters: list[dict[str, Any]] = field(default_factory=list)
    count: int = 0
    may_have_started: int = 0
    counts: dict[str, Counter[str]] = field(
        default_factory=lambda: {name: Counter() for name in BY}
    )
    looked_at: int = 0


def find(
    queue: LetterQueue, filters: Filters, most: int | None = None, look_at: int | None = None
) -> Found:
    """Look for letters, the oldest first.

    Arguments:
        most: how many to return, at the most; None for all.
        look_at: how many to look at, at the most.
    """
    found = Found()
    with closing(queue.browse()) as letters:
        for letter in letters:
            found.looked_at += 1
            if filters.fit(letter):
                found.count += 1
                found.may_have_started += letter.may_have_started is not False
                for name, of in BY.items():
                    found.counts[name][of(letter)] += 1
                if most is None or found.count <= most:
                    found.letters.append(_entry(letter))
            if found.looked_at == look_at:
                break
    return found


def shown(queue: LetterQueue, name: str, limit: int) -> list[tuple[Letter, dict[str, Any]]]:
    """Return the letters of a name, and all that can be read of each, as JSON has it.

    Arguments:
        limit: characters of the body, or bytes of what is no text, at the most; 0 for all.
    """
    with closing(queue.browse()) as letters:
        return [(letter, _fields(letter, limit)) for letter in letters if name in _names_of(letter)]


def _fields(letter: Letter, limit: int) -> dict[str, Any]:
    return {
        "id": letter.id,
        "digest": letter.digest,
        "problem": letter.problem,
        "headers": plain(letter.headers),
        "properties": plain(letter.properties),
        "body": readable(letter, limit),
    }


def _names_of(letter: Letter | Copies) -> set[str]:
    """Return how it may be called: its digest, or its id as it is, or as it is shown."""
    return {letter.digest, letter.id, escaped(letter.id)}


class Provable:
    """The file of ``pipeline audit --ids-out``: dead letters that provably never started.

    A letter is known by its task's id, the number of its retries and when it was published: what
    was replayed since then is another message, of which nothing is proven. Nor is it proven that
    the work of a duplicate has not been done for another message.

    Raises:
        ValueError: the file cannot be read, or is another one.
    """

    def __init__(self, path: Path) -> None:
        self._published: dict[tuple[str, int], float] = {}
        try:
            lines = path.read_text().splitlines()
        except (OSError, UnicodeDecodeError) as exc:
            raise ValueError(f"{path}: {exc}") from exc
        for number, line in enumerate(lines, start=1):
            try:
                row = json.loads(line)
                self._published[str(row["id"]), int(row["retries"])] = float(row["published"])
            except (KeyError, TypeError, ValueError) as exc:
                raise ValueError(
                    f"{path}: line {number}, {line.strip()[:80]!r}, is not of pipeline audit"
                    f" --ids-out: {exc!r}"
                ) from None

    def fits(self, letter: Letter) -> bool:
        """Whether it is of this letter that the log has proven that it did not start."""
        retries, published = letter.headers.get("retries") or 0, letter.headers.get(PUBLISHED)
        if letter.reason == DUPLICATE or not isinstance(retries, int):
            return False
        proven = self._published.get((letter.id, retries), float("inf"))
        return isinstance(published, float) and abs(proven - published) < _CLOSE


@dataclass(frozen=True)
class Order:
    """What is to be done with which letters.

    Attributes:
        filters: which are meant; or else
        ids: how they are called that are meant, each the one of its name.
        purges: whether they are removed for good, rather than replayed.
        may_have_started: whether those are replayed, too, that say so, or do not say.
        proven: what never started; of those that are meant this alone is replayed.
    """

    filters: Callable[[Letter], bool] = Filters().fit
    ids: tuple[str, ...] = ()
    purges: bool = False
    may_have_started: bool = False
    proven: Provable | None = None

    def means(self, letter: Letter) -> bool:
        """Whether a letter was asked for."""
        if self.ids:
            return not _names_of(letter).isdisjoint(self.ids)
        return self.filters(letter) and (self.proven is None or self.proven.fits(letter))

    def plan(self, queue: LetterQueue) -> Plan:
        """Look what would be done; nothing is."""
        plan = Plan(queue, self.means)
        for copies in plan.named(dict.fromkeys(self.ids), _names_of) if self.ids else plan.wanted():
            if self.purges:
                plan.todo[copies.digest] = copies
            else:
                # Whether it is proven, of all letters of a message.
                proven = self.proven is not None and copies.wanted == copies.count
                plan.replay(copies, self.may_have_started or proven)
        return plan

    def foresee(self, plan: Plan) -> Report:
        """Return what `do` would, if nobody takes a letter meanwhile."""
        if self.purges:
            return plan.foresee(lambda copies: copies.wanted, lambda _: 0)
        return plan.foresee(lambda _: 1, lambda copies: copies.count - 1)

    def do(
        self,
        app: Any,
        queue: LetterQueue,
        plan: Plan,
        stop: Callable[[], bool] = lambda: False,
        tick: Callable[[int], object] = lambda _: None,
    ) -> Report:
        """Do what was planned.

        Arguments:
            stop: asked before each letter whether to end here.
            tick: told after each message, that it is one more.
        """
        if self.purges:
            return purge(queue, plan, self.means, stop=stop, tick=tick)
        settings = Settings.of(app)
        if settings.ledger is None or not (self.may_have_started or self.proven):
            return replay(queue, plan, stop=stop, tick=tick)
        with closing(ledger_at(settings.ledger, settings.ledger_expiry)) as ledger:
            # Once: of two messages for the same work the second is to find the first one's claim.
            forget_once = cache(ledger.forget)

            def give_up(key: str, id_: str) -> None:
                """Or it would come back; but what is proven proves nothing of another's claim."""
                own = claimable(id_)
                if self.may_have_started:
                    forget_once(key)
                elif is_of(ledger.claim(key, own, doubt=False).owner or own, own):
                    ledger.forget(key)

            return replay(queue, plan, forget=give_up, stop=stop, tick=tick)
