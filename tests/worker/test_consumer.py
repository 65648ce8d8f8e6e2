"""The queues of a connection: what is over stays over, and one queue's trouble is its own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from celery_fair.core.chooser import Chooser
from celery_fair.worker.launch.in_flight import InFlight
from celery_fair.worker.queues.consumer import FairTaskConsumer
from celery_fair.worker.queues.open_feeds import OpenFeeds
from celery_fair.worker.queues.reports import Reports
from tests.feeds import ports
from tests.worker.parts import Request, Shelf, Silent, shelf


class Scene:
    """A connection with two queues; their feeds are kept in `made`."""

    def __init__(self) -> None:
        self.chooser = Chooser(InFlight())
        self.feeds = OpenFeeds(self.chooser)
        self.reports = Reports(Silent())
        self.made: dict[str, Shelf] = {}
        self.ended: list[str] = []
        self.given_up: list[str] = []
        self.recovery: Any = SimpleNamespace(
            ended=lambda feed: self.ended.append(feed.name), given_up=self.given_up.append
        )
        queues = [SimpleNamespace(name=name) for name in "ab"]
        self.consumer = FairTaskConsumer(
            None,
            queues,
            self._make,
            lambda consumed: self.recovery,
            self.feeds,
            self._levels_of,
            connection_errors=(ConnectionError,),
        )
        self.consumer.consume()

    def _make(self, queue: Any, recovery: Any) -> Shelf:
        assert recovery is self.recovery
        made = shelf(queue.name)
        flow = self.chooser.add(queue.name, 1.0, 0, made.gate)
        own = ports()._replace(reports=self.reports)
        self.made[queue.name] = made = shelf(queue.name, flow=flow, gate=made.gate, ports=own)
        return made

    def _levels_of(self, queue: Any) -> list[Any]:
        return ["a", "b"] if queue == "both" else [queue]

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


def test_a_queue_that_gives_nothing_back_is_consumed_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A Redis that is out of memory takes nothing, and is not lost for that."""
    scene = Scene()
    before = scene.made["a"]
    before.put("m")

    def give_back(messages: Any) -> None:
        raise ValueError("out of memory")

    monkeypatch.setattr(before.dispositions, "give_back", give_back)
    with pytest.raises(ValueError, match="out of memory"):
        scene.consumer.renew(before)
    assert sorted(scene.open) == ["a", "b"]
    assert scene.made["a"] is not before
    assert before.dead


def test_what_is_put_off_of_a_fenced_queue_goes_back_with_it() -> None:
    scene = Scene()
    one, two = scene.made["a"], scene.made["b"]
    one.gate.fence(lambda now: False)
    for feed in (one, two):
        eta, limited, due = feed.put("eta", "limited", "due")
        feed.buffer.clear()
        feed.aside.put(eta, eta=True)
        feed.aside.put(limited, eta=False)
        feed.aside.put(due, eta=True)
        feed.aside.due(due, Request(due))
        scene.consumer.cancel_by_queue(feed.name)
    requeued = [("due", True), ("eta", True), ("limited", True)]
    assert one.channel.acknowledged == requeued
    assert two.channel.acknowledged == requeued[:1]


def test_what_fails_with_one_queue_ends_the_others_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene()
    one, two = scene.made["a"], scene.made["b"]
    one.put("x")
    [message] = two.put("y")

    def nacked(messages: Any) -> None:
        raise ValueError("the queue is full")

    monkeypatch.setattr(one.dispositions, "give_back", nacked)
    monkeypatch.setattr(two.dispositions, "give_back", lambda messages: messages[0].ack())
    with pytest.raises(ValueError, match="the queue is full"):
        scene.consumer.cancel()
    assert scene.open == ""
    assert one.dead
    assert message.acknowledged


def test_what_fails_with_one_level_ends_the_others_all_the_same(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The broker has back what could not be given back, when the channel is closed."""
    scene = Scene()
    one = scene.made["a"]
    one.put("x")

    def nacked(message: Any) -> None:
        raise ValueError("the queue is full")

    monkeypatch.setattr(one.dispositions, "give_back", nacked)
    scene.consumer.cancel_by_queue("both")
    assert "Queue both is consumed no more" in caplog.text
    assert "the queue is full" in caplog.text
    assert scene.open == ""
    assert scene.ended == ["a"]


def test_that_the_connection_is_lost_is_for_celery_to_know(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    scene.made["a"].put("x")

    def lost(messages: Any) -> None:
        raise ConnectionError("lost")

    monkeypatch.setattr(scene.made["a"].dispositions, "give_back", lost)
    with pytest.raises(ConnectionError):
        scene.consumer.cancel_by_queue("a")
    assert scene.open == "b"


def test_a_lost_connection_leaves_nothing_open() -> None:
    scene = Scene()
    scene.made["a"].put("x")
    scene.consumer.abandon()
    assert scene.open == ""
    assert all(feed.dead and not feed.buffer for feed in scene.made.values())


def test_a_queue_that_is_consumed_again_is_not_ended_by_its_former_channel() -> None:
    """What ran of it may keep that open for long; then the broker closes it."""
    scene = Scene()
    before = scene.made["a"]
    scene.consumer.cancel_by_queue("a")
    scene.consumer.add_queue(Declared("a"))
    scene.consumer.consume()
    scene.consumer.suspend(before)
    assert sorted(scene.open) == ["a", "b"]
    assert not scene.made["a"].dead


class Declared(SimpleNamespace):
    """A queue that can be bound to a channel and declared."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, declare=lambda: None)

    def __call__(self, channel: Any) -> Declared:
        return self
