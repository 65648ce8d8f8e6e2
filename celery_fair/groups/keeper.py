"""A member's turns, in a thread: the store may take its time, a worker's loop may not.

The loop and the thread talk through two variables. The thread puts down the last turn that it took,
and the loop picks it up. The loop puts down what it holds. As long as a turn has not been picked
up, because a task keeps the loop busy, the thread renews the lease and gives nothing up: it assumes
that everything it owns is held. What is no longer held is told to the group at once, because
somebody is waiting for it.

Without its broker a worker consumes nothing, and the loop does not look. Then the thread goes on
alone: what is planned for the member stays its own, and what is planned for another is given up as
soon as nothing of it runs. The loop consumes again when no such turn is under way any more.

Nor does the loop look while a worker stops. All that it has is held until it leaves; nothing is
planned for it.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from random import uniform
from time import sleep
from typing import NamedTuple

from celery_fair.clock import elapsed
from celery_fair.core.groups.membership import Group, Terms, Turn, elsewhere, living, turn
from celery_fair.core.groups.tenure import ClockWatch
from celery_fair.groups import GroupStore, Snapshot, StoreUnreachableError
from celery_fair.groups.document import decoded, encoded

logger = logging.getLogger(__name__)

POLL = 0.5
"""Seconds between two looks at the group."""

ATTEMPTS = 60
"""How often a turn is taken anew because others have written meanwhile: each time one of them has
got through, and there may be dozens."""

_PAUSE = 0.02


def longest_pause(attempt: int) -> float:
    """Return the most seconds that a refused member waits; how long exactly is random.

    If many started over at the same time, only one of them could write, again and again.
    """
    return min(POLL, _PAUSE * 2.0**attempt)


class Taken(NamedTuple):
    """A turn that is in the store."""

    turn: Turn
    asked: float  # by `elapsed`, before the store was


class Trouble(NamedTuple):
    """Why no turn was taken."""

    error: Exception
    will_recover: bool


class PartitionsDifferError(ValueError):
    """The settings name other partitions than the group has."""


class OtherBrokerError(ValueError):
    """The group is one of workers on another broker, which have it under the same name."""


class Keeper:
    """One member of one group.

    Arguments:
        store: where the group is kept.
        group: its name.
        partitions: what the settings say that the group has.
        me: the member's name; no other ever has it.
        terms: of the group.
        recovery: seconds after which a member that has lost its lease tries again; None, never.
    """

    def __init__(
        self,
        store: GroupStore,
        group: str,
        partitions: list[str],
        me: str,
        terms: Terms,
        recovery: float | None,
    ) -> None:
        self.group = group
        self.me = me
        self._store = store
        self._partitions = frozenset(partitions)
        self._terms = terms
        self._recovery = recovery
        self._watch = ClockWatch(max(terms.margin, 2 * POLL))
        self._lock = threading.Lock()
        self._news: list[Taken | Trouble] = []
        self._held: frozenset[str] = frozenset()
        self._untaken = False
        self._runs: Callable[[str], bool] | None = None  # while nothing is consumed
        self._is_back = True
        self._in_trouble = False
        self._renewed = float("-inf")
        self._told: Mapping[str, int] = {}
        self._broker = ""
        self._stop = threading.Event()
        self._soon = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"group {group}", daemon=True)

    def is_on(self, broker: str) -> None:
        """Put down from which broker is consumed, "" if that cannot be told; `STOPS`."""
        self._broker = broker

    def start(self) -> None:
        """Join; once."""
        self._thread.start()

    def news(self) -> list[Taken | Trouble]:
        """Return what has happened since the last call: the last turn, and any trouble."""
        with self._lock:
            news, self._news = self._news, []
            return news

    def holds(self, held: frozenset[str]) -> None:
        """Put down what is held, by the news that were taken up."""
        with self._lock:
            if not self._news:
                if self._held - held:
                    self._soon.set()
                self._held = held
                self._untaken = False

    def consumes_nothing(self, runs: Callable[[str], bool]) -> None:
        """Put down that nothing is consumed until `is_back`; what runs is still held.

        Arguments:
            runs: whether something of a partition still runs here; called in the thread.
        """
        self._runs = runs

    def is_back(self) -> bool:
        """End that; return whether the news tell of all that was given up meanwhile."""
        with self._lock:
            self._runs = None
            if not self._is_back:
                self._soon.set()
            return self._is_back

    def leave(self) -> None:
        """Nothing is held any more: give everything up, so that nobody waits for the lease."""
        until = elapsed() + self._terms.margin
        self._stop.set()
        self._soon.set()
        if self._thread.is_alive():
            self._thread.join(self._terms.margin)
        with suppress(ValueError):  # it is none of ours
            while not self._left(until):
                sleep(_PAUSE)

    def _left(self, until: float) -> bool:
        """Leave, and say whether that is done or cannot be."""
        try:
            self._take(leaving=True)
        except StoreUnreachableError as exc:
            if elapsed() < until:
                return False
            logger.warning(
                "Group %s: others wait for the lease, as what is given up could not be told: %s",
                self.group,
                exc,
            )
        return True

    def _run(self) -> None:
        wait = 0.0
        while not self._stops_within(wait):
            try:
                self._take()
            except (StoreUnreachableError, ValueError) as exc:
                wait = self._trouble(exc)
            except Exception as exc:
                logger.exception("Group %s", self.group)
                wait = self._trouble(exc)
            else:
                self._in_trouble = False
                wait = POLL

    def _stops_within(self, seconds: float) -> bool:
        # After trouble nothing is hurried: a store that is away is left alone for so long.
        (self._stop if self._in_trouble else self._soon).wait(seconds)
        self._soon.clear()
        return self._stop.is_set()

    def _trouble(self, error: Exception) -> float:
        """Tell of it once; return when to try again."""
        lost = elapsed() >= self._renewed + self._terms.safe
        if not self._in_trouble:
            self._in_trouble = True
            with self._lock:
                self._news.append(Trouble(error, self._recovery is not None))
        if not lost:
            return POLL
        if self._recovery is None:
            self._stop.set()
            return 0.0
        return max(POLL, self._recovery)

    def _take(self, leaving: bool = False) -> None:
        for attempt in range(ATTEMPTS):
            if self._stop.is_set() and not leaving:
                return
            asked = elapsed()
            snapshot = self._store.read(self.group)
            in_doubt = self._watch.doubts(snapshot.now, asked, elapsed())
            group = self._checked(snapshot, in_doubt)
            taken = self._turn(group, snapshot.now, leaving, in_doubt)
            if not (leaving or self._is_news(taken, asked)):
                self._is_back = True
                return
            if self._store.write(self.group, snapshot.version, encoded(taken.group)):
                self._renewed, self._told = asked, taken.granted
                self._tell(Taken(taken, asked))
                self._is_back = True
                return
            sleep(uniform(0, longest_pause(attempt)))  # noqa: S311 - no secret
        raise StoreUnreachableError(
            f"others have written group {self.group!r} {ATTEMPTS} times while it was read"
        )

    def _tell(self, taken: Taken) -> None:
        with self._lock:
            self._untaken = True
            # Of turns that were not taken up the last one counts.
            self._news = [news for news in self._news if isinstance(news, Trouble)]
            self._news.append(taken)

    def _is_news(self, taken: Turn, asked: float) -> bool:
        due = asked >= self._renewed + self._terms.heartbeat
        return due or taken.changed or taken.granted != self._told

    def _turn(self, group: Group, now: float, leaving: bool, in_doubt: bool) -> Turn:
        with self._lock:
            held = frozenset(group.owned_by(self.me)) if self._untaken else self._held
            if self._runs is not None:
                held = frozenset(filter(self._runs, group.owned_by(self.me)))
                self._is_back = False  # until what is given up is told, or is not
        return turn(group, self.me, now, self._terms, held, leaving, in_doubt, self._broker)

    def _checked(self, snapshot: Snapshot, in_doubt: bool) -> Group:
        group = decoded(snapshot.text)
        others = living(group, snapshot.now, in_doubt) - {self.me}
        if self.me not in group.members:
            self._refuse_elsewhere(elsewhere(group, self._broker, others))
        if group.partitions == self._partitions:
            return group
        if not others:  # as we have it is how it is
            return group.of(self._partitions)
        by_number = partial(sorted, key=lambda name: (len(name), name))
        ours, theirs = by_number(self._partitions), by_number(group.partitions)
        raise PartitionsDifferError(
            f"group {self.group!r} has {len(theirs)} partitions ({theirs[0]} to {theirs[-1]}), and"
            f" fair_partitions {len(ours)} ({ours[0]} to {ours[-1]}): a change would send a key's"
            f" messages elsewhere while older ones wait. Stop all workers of the group first, or"
            f" set it back. Nothing of the group is consumed here meanwhile"
        )

    def _refuse_elsewhere(self, members: Mapping[str, str]) -> None:
        if not members:
            return
        name, broker = min(members.items())
        raise OtherBrokerError(
            f"{name} is a member of it on another broker ({broker}) than this worker is on"
            f" ({self._broker}). Groups of one name in one fair_group_store are one group, which"
            f" apps on two brokers cannot share: give this app's group another name ('group' in"
            f" fair_partitions), or the app a fair_group_store of its own. Nothing of the group is"
            f" consumed here meanwhile"
        )
