"""What a worker consumes of its groups, when not all goes well."""

from __future__ import annotations

from typing import Any

import pytest
from amqp import PreconditionFailed

from celery_fair.core.groups.membership import Group, Terms, Turn
from celery_fair.groups.keeper import Taken
from celery_fair.worker.launch.in_flight import InFlight
from celery_fair.worker.partitions import Partitions

SOON = 1e12  # on the monotonic clock: no lease ends here


class Turns:
    """A keeper whose news a test makes."""

    group = "g"

    def __init__(self) -> None:
        self._news: list[Taken] = []
        self.held: frozenset[str] = frozenset()

    def granted(self, **tokens: int) -> None:
        self._news.append(Taken(Turn(Group(), tokens, frozenset(), True), SOON))

    def news(self) -> list[Taken]:
        news, self._news = self._news, []
        return news

    def is_back(self) -> bool:
        return True

    def holds(self, held: frozenset[str]) -> None:
        self.held = held


class Consumed:
    """Queues, of which those in `stuck` raise when they are cancelled, or declared in `refused`."""

    stuck = refused = ""
    queues = ()

    def __init__(self) -> None:
        self.cancelled: list[str] = []
        self.added: list[str] = []

    def cancel_by_queue(self, name: str) -> None:
        self.cancelled.append(name)
        if name in self.stuck:
            raise TimeoutError("the broker takes nothing")

    def add_queue(self, queue: Any) -> None:
        if str(queue) in self.refused:
            raise PreconditionFailed("declared otherwise")
        self.added.append(queue)

    def consume(self) -> None: ...


def test_what_fails_with_one_partition_revokes_the_others_and_assigns_all() -> None:
    keeper: Any = Turns()
    consumed: Any = Consumed()
    gates: Any = Gates()
    tokens: dict[str, int] = {}
    queues = dict.fromkeys("abc")
    partitions = Partitions(keeper, Terms(), gates, InFlight(), tokens, queues, None)
    keeper.granted(a=1, b=1)
    partitions.look(consumed)

    consumed.stuck = "ab"
    keeper.granted(c=2)
    partitions.look(consumed)

    assert sorted(consumed.cancelled) == ["a", "b"]
    assert tokens["c"] == 2
    assert keeper.held == {"c"}


def test_what_cannot_be_declared_keeps_no_other_from_being_consumed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    keeper: Any = Turns()
    consumed: Any = Consumed()
    gates: Any = Gates()
    queues = dict(zip("abc", "abc", strict=True))
    partitions = Partitions(keeper, Terms(), gates, InFlight(), {}, queues, None)
    consumed.refused = "b"
    keeper.granted(a=1, b=1, c=1)
    for _ in range(3):
        partitions.look(consumed)
    assert {"a", "c"} <= set(consumed.added)
    assert keeper.held == {"a", "b", "c"}
    assert caplog.text.count("partition b cannot be consumed") == 1


class Gates:
    """Nobody passes them here."""

    def of(self, queue: str) -> Gates:
        return self

    def fence(self, is_over: object) -> None: ...
