"""Queues that the broker has taken away: declared again, or tried again until they are there."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
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
        self.unbindable: Exception | None = None
        self.consumed = {"q"}
        self.is_over = False
        c = SimpleNamespace(
            call_soon=lambda call, *args: call(*args), channel_errors=(PreconditionFailed,)
        )
        self.lost = LostQueues(
            c,
            self,
            lambda seconds, call: self.later.append(call),
            [self._declared],
        )
        self.feed = shelf()

    def _declared(self, name: str) -> None:
        if self.unbindable is not None:
            raise self.unbindable
        self.log.append(f"declared {name}")

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
        if not self.is_over:
            self.log.append("consume")

    def try_again(self) -> set[str]:
        self.consume()
        return self.consumed

    def suspend(self, feed: Any) -> None:
        self.log.append("suspend")


@pytest.mark.parametrize("told", ["refused", "closed"])
def test_a_deleted_queue_whose_channel_is_closed_is_declared_again(told: str) -> None:
    """As the answer to a question, or amid other work, to one that nobody waited for."""
    scene = Scene()
    getattr(scene.lost, told)(scene.feed, NotFound("no queue 'q'"))
    assert scene.log == ["suspend", "add", "declared q", "consume"]


def test_one_that_others_are_to_declare_is_tried_again() -> None:
    """Later: to ask at once, and again, would keep the worker from all else until it is there."""
    scene = Scene()
    scene.feed.queue.no_declare = True
    scene.lost.refused(scene.feed, NotFound("no queue 'q'"))
    assert scene.log == ["suspend"]
    scene.later.pop()()
    assert scene.log == ["suspend", "consume"]


def test_one_that_cannot_be_declared_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    scene.consumed = set()
    scene.refusing = PreconditionFailed("another type")
    scene.lost.refused(scene.feed, NotFound("no queue 'q'"))
    assert scene.log == ["suspend"]

    def consume() -> None:  # it is not there yet
        scene.lost.refused(scene.feed, NotFound("no queue 'q'"))

    scene.consume = consume  # type: ignore[method-assign]
    scene.later.pop()()
    assert len(caplog.messages) == 2  # deleted, cannot be declared: each once
    scene.refusing = None
    del scene.consume
    scene.later.pop()()
    assert scene.log[-1] == "consume"


def test_what_is_in_front_of_a_queue_is_not_its_fault(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    scene.unbindable = PreconditionFailed("an exchange of another type")
    scene.lost.refused(scene.feed, NotFound("no queue 'q'"))
    assert scene.log == ["suspend", "add", "consume"]
    assert "an exchange in front of it cannot be" in caplog.text
    scene.unbindable = None
    scene.later.pop()()
    assert scene.log[-1] == "declared q"
    assert scene.later == []


def test_a_queue_that_was_given_up_and_is_added_again_is_spoken_of_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene()
    for _ in range(2):
        scene.lost.refused(scene.feed, AccessRefused("in exclusive use"))
    assert len(caplog.messages) == 1
    scene.lost.given_up("q")
    scene.lost.refused(scene.feed, AccessRefused("in exclusive use"))
    assert len(caplog.messages) == 2


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


def test_one_that_cannot_be_opened_is_closed_and_tried_again() -> None:
    scene = Scene()
    feed = opened()
    feed.put("x")
    feed.error = PreconditionFailed("another type")
    scene.lost.lost(feed)
    assert scene.log == ["suspend"]
    assert not feed.buffer  # its channel is closed
    scene.later.pop()()
    assert scene.log == ["suspend", "consume"]


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
