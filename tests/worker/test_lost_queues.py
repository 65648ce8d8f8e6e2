"""Queues that the broker has taken away: declared again, tried again, or consumed no more."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from amqp import AccessRefused, NotFound, PreconditionFailed

from celery_fair.worker.queues.lost_queues import LostQueues
from tests.worker.parts import Shelf, shelf


class Opened(Shelf):
    """Counts how often it was subscribed to again, or says that it cannot be."""

    error: Exception | None = None
    opened = 0

    def reopen(self) -> None:
        if self.error is not None:
            raise self.error
        self.opened += 1


class Scene:
    """What a connection consumes, one queue of it, and Celery's consumer."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.later: list[Callable[[], object]] = []
        self.refusing: Exception | None = None
        self.consumed = {"q"}
        self.is_over = False
        c = SimpleNamespace(
            call_soon=lambda call, *args: call(*args), channel_errors=(PreconditionFailed,)
        )
        self.lost = LostQueues(
            c,
            self,
            lambda seconds, call: self.later.append(call),
            [lambda name: self.log.append(f"declared {name}")],
        )
        self.feed = shelf()

    @property
    def queues(self) -> list[Any]:
        return [SimpleNamespace(name="q")]

    def consuming_from(self, queue: Any) -> bool:
        return queue in self.consumed

    def add_queue(self, queue: Any) -> Any:
        if self.refusing is not None:
            raise self.refusing
        self.log.append("add")

    def consume(self) -> None:
        self.log.append("consume")

    def try_again(self) -> set[str]:
        self.consume()
        return self.consumed

    def suspend(self, feed: Any) -> None:
        self.log.append("suspend")

    def drop(self, feed: Any) -> None:
        self.log.append("drop")

    def forget(self, name: str) -> None:
        self.log.append(f"forget {name}")


def test_a_deleted_queue_whose_channel_is_closed_is_declared_again() -> None:
    scene = Scene()
    scene.lost.refused(scene.feed, NotFound("no queue 'q'"))
    assert scene.log == ["suspend", "add", "declared q", "consume"]


def test_one_that_cannot_be_declared_is_consumed_no_more() -> None:
    scene = Scene()
    scene.refusing = PreconditionFailed("another type")
    scene.lost.refused(scene.feed, NotFound("no queue 'q'"))
    assert scene.log == ["suspend", "forget q"]


def test_a_refused_queue_is_tried_again_until_it_is_consumed() -> None:
    scene = Scene()
    scene.consumed = set()
    for _ in range(2):
        scene.lost.refused(scene.feed, AccessRefused("in exclusive use"))
    assert len(scene.later) == 1
    scene.later.pop()()
    assert scene.log == ["suspend", "suspend", "consume"]

    scene.lost.refused(scene.feed, AccessRefused("in exclusive use"))
    scene.consumed = {"q"}
    scene.later.pop()()
    assert scene.later == []


def test_one_whose_channel_the_broker_has_closed_is_consumed_again() -> None:
    scene = Scene()
    scene.lost.closed(scene.feed, PreconditionFailed("delivery acknowledgement timed out"))
    assert scene.log == ["suspend"]
    scene.later.pop()()
    assert scene.log == ["suspend", "consume"]


def test_unless_all_is_over_by_then() -> None:
    scene = Scene()
    scene.lost.closed(scene.feed, PreconditionFailed("delivery acknowledgement timed out"))
    scene.is_over = True
    scene.later.pop()()
    assert scene.log == ["suspend"]


def test_a_cancelled_subscription_is_opened_again() -> None:
    scene = Scene()
    feed = opened()
    scene.lost.lost(feed)
    assert feed.opened == 1
    assert scene.log == ["declared q"]


def test_nor_one_of_a_dead_connection() -> None:
    scene = Scene()
    feed = opened()
    feed.die()
    scene.lost.lost(feed)
    assert feed.opened == 0


def test_when_all_is_over_nothing_is_declared() -> None:
    scene = Scene()
    scene.is_over = True
    feed = opened()
    scene.lost.lost(feed)
    scene.lost.refused(feed, NotFound("no queue 'q'"))
    assert feed.opened == 0
    assert scene.log == ["suspend"]


def test_one_that_cannot_be_opened_is_dropped() -> None:
    scene = Scene()
    feed = opened()
    feed.error = PreconditionFailed("another type")
    scene.lost.lost(feed)
    assert scene.log == ["drop"]


def test_a_channel_is_closed_when_whoever_settled_its_last_message_is_done_with_it() -> None:
    """To wait for the broker's word that it has the acknowledgement, say."""
    soon: list[Callable[[], object]] = []
    feed = shelf()
    feed.put("x")
    lost = LostQueues(SimpleNamespace(call_soon=soon.append), Scene(), lambda *_: None)
    lost.ended(feed)
    assert feed.buffer
    soon.pop()()
    assert not feed.buffer


def opened() -> Opened:
    made = shelf()
    made.__class__ = Opened
    assert isinstance(made, Opened)
    return made
