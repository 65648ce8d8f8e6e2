"""The queues of a connection: what is over stays over, and one queue's trouble is its own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from celery_fair.core.chooser import Chooser
from celery_fair.worker.launch.in_flight import InFlight
from celery_fair.worker.queues.consumer import FairTaskConsumer
from celery_fair.worker.queues.open_feeds import OpenFeeds
from tests.worker.parts import Shelf, shelf


class Scene:
    """A connection with two queues; their feeds are kept in `made`."""

    def __init__(self) -> None:
        self.chooser = Chooser(InFlight())
        self.feeds = OpenFeeds(self.chooser)
        self.made: dict[str, Shelf] = {}
        self.recovery: Any = SimpleNamespace()
        queues = [SimpleNamespace(name=name) for name in "ab"]
        self.consumer = FairTaskConsumer(
            None, queues, self._make, lambda consumed: self.recovery, self.feeds
        )
        self.consumer.consume()

    def _make(self, queue: Any, recovery: Any) -> Shelf:
        assert recovery is self.recovery
        made = shelf(queue.name)
        flow = self.chooser.add(queue.name, 1.0, 0, made.gate)
        self.made[queue.name] = made = shelf(queue.name, flow=flow, gate=made.gate)
        return made

    @property
    def open(self) -> str:
        return "".join(feed.name for feed in self.feeds)


def test_after_a_stop_nothing_is_consumed_again() -> None:
    """A queue that was refused may be tried again by a timer that nobody has stopped."""
    scene = Scene()
    assert scene.open == "ab"
    scene.consumer.cancel()
    assert scene.consumer.try_again() == set()
    scene.consumer.add_queue(SimpleNamespace(name="c"))
    scene.consumer.consume()
    assert scene.open == ""
    assert scene.consumer.is_over


def test_what_fails_with_one_queue_ends_the_others_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene()
    one, two = scene.made["a"], scene.made["b"]
    one.put("x")
    [message] = two.put("y")

    def nacked(message: Any) -> None:
        raise ValueError("the queue is full")

    monkeypatch.setattr(one.custody, "give_back", nacked)
    monkeypatch.setattr(two.custody, "give_back", lambda message: message.ack())
    with pytest.raises(ValueError, match="the queue is full"):
        scene.consumer.cancel()
    assert scene.open == ""
    assert one.dead
    assert message.acknowledged


def test_a_lost_connection_leaves_nothing_open() -> None:
    scene = Scene()
    scene.made["a"].put("x")
    scene.consumer.abandon()
    assert scene.open == ""
    assert all(feed.dead and not feed.buffer for feed in scene.made.values())
