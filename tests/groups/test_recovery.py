"""A member whose store is away for longer than its lease: when it asks again, if it does."""

from __future__ import annotations

import threading
from itertools import pairwise
from time import monotonic

import pytest

from celery_fair.core.groups.membership import Terms
from celery_fair.groups import Snapshot, StoreUnreachableError
from celery_fair.groups.keeper import Keeper, Taken, Trouble
from tests.groups.memory_store import MemoryStore
from tests.waiting import wait_for

LEASE = 1.0


class AwayStore(MemoryStore):
    """One that can be told not to answer; it keeps in mind when it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.is_away = False
        self.asked: list[float] = []

    def read(self, group: str) -> Snapshot:
        self.asked.append(monotonic())
        if self.is_away:
            raise StoreUnreachableError("it is away")
        return super().read(group)

    def write(self, group: str, version: int, text: str) -> bool:
        if self.is_away:
            raise StoreUnreachableError("it is away")
        return super().write(group, version, text)


class Member:
    """Of a group that has one partition."""

    def __init__(self, recovery: float | None, lease: float = LEASE) -> None:
        self.store = AwayStore()
        name = f"of {recovery} seconds"
        self.keeper = Keeper(self.store, name, ["p"], "me", Terms(lease), recovery)
        self.taken: list[Taken] = []
        self.troubles: list[Trouble] = []
        self.keeper.start()
        wait_for(self._owns, 20, "the partition")

    def _owns(self) -> bool:
        return bool(self.look() and self.taken[-1].turn.granted)

    def look(self) -> list[Taken]:
        """Take up the news; return all turns."""
        for news in self.keeper.news():
            if isinstance(news, Taken):
                assert news.asked <= self.store.asked[-1], "the lease counts from before"
                self.taken.append(news)
            else:
                self.troubles.append(news)
        self.keeper.holds(frozenset(self.taken[-1].turn.granted if self.taken else ()))
        return self.taken

    @property
    def asked_when_lost(self) -> list[float]:
        """When the store was asked after the lease, without its margin, was over."""
        until = self.look()[-1].asked + Terms(LEASE).safe
        return [at for at in self.store.asked if at >= until]


def test_asks_again_after_the_delay() -> None:
    member = Member(recovery=1.0)
    tokens = dict(member.taken[-1].turn.granted)
    member.store.is_away = True
    wait_for(lambda: len(member.asked_when_lost) >= 3, 30, lambda: str(member.store.asked))
    asked = member.asked_when_lost
    assert all(later - earlier >= 1.0 for earlier, later in pairwise(asked)), asked
    (trouble,) = member.troubles
    assert (trouble.will_recover, str(trouble.error)) == (True, "it is away")

    turns = len(member.look())
    member.store.is_away = False
    wait_for(lambda: len(member.look()) > turns, 30, "a turn")
    assert member.taken[-1].turn.granted["p"] > tokens["p"]
    member.keeper.leave()


def test_gives_up_without_recovery() -> None:
    """Not before the lease is over; then for good."""
    member = Member(recovery=None)
    member.store.is_away = True
    name = "group of None seconds"
    wait_for(
        lambda: name not in {thread.name for thread in threading.enumerate()},
        30,
        lambda: str(member.store.asked),
    )
    assert len(member.asked_when_lost) == 1
    (trouble,) = member.troubles
    assert trouble.will_recover is False


@pytest.mark.parametrize("recovery", [30.0, None])
def test_comes_back_in_time(recovery: float | None) -> None:
    """Before the lease is over neither the delay nor its want counts."""
    member = Member(recovery, lease=6)
    tokens = dict(member.taken[-1].turn.granted)
    member.store.is_away = True
    wait_for(lambda: member.look() and member.troubles, 20, "trouble")
    member.store.is_away = False
    turns = len(member.look())
    wait_for(lambda: len(member.look()) > turns, 20, "a turn")
    assert dict(member.taken[-1].turn.granted) == tokens
    member.keeper.leave()
