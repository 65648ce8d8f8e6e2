"""What has waited at the worker for too long is given back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from kombu import Queue
from kombu.asynchronous.timer import Timer

from celery_fair.worker import patches
from celery_fair.worker.queues.held import LONGEST_WAIT, Held, longest_wait
from celery_fair.worker.queues.reports import Reports
from tests.feeds import ports
from tests.worker.parts import Shelf, Silent, shelf

LIMIT = 600.0
SOON = 5.0


class Scene:
    """A connection's queues; `look` has the time pass until the next look."""

    def __init__(self, *feeds: Shelf) -> None:
        self.feeds = list(feeds)
        self.is_over = False
        self.renewed: list[str] = []
        self.forgotten: list[str] = []
        self.retired: list[Shelf] = []
        self.later: list[Callable[[], object]] = []
        self.waits: list[float] = []
        self.now = max((m.arrived for feed in feeds for m in held(feed)), default=0.0)
        self.held = Held(
            self,
            LIMIT,
            self._call_later,
            self._forget,
            (ConnectionError,),
            lambda: self.now,
        )

    def _call_later(self, seconds: float, call: Callable[[], object]) -> None:
        self.waits.append(seconds)
        self.later.append(call)

    def renew(self, feed: Any) -> None:
        self.renewed.append(feed.name)

    def _forget(self, messages: Iterable[Any]) -> None:
        self.forgotten += [message.headers["id"] for message in messages]

    def look(self, after: float) -> None:
        self.now += after
        [look], self.later = self.later, []
        look()


def held(feed: Shelf) -> list[Any]:
    return [*feed.buffer, *feed.aside.messages]


def test_it_waits_for_half_of_what_the_broker_is_known_for() -> None:
    """On RabbitMQ a queue may say so; Redis has one time for all."""
    own = [Queue("a", queue_arguments={"x-consumer-timeout": 60_000}), Queue("b")]
    rabbitmq, redis = SimpleNamespace(), SimpleNamespace(visibility_timeout=100)
    assert longest_wait(rabbitmq, own) == 30
    assert longest_wait(rabbitmq, own[1:]) == longest_wait(rabbitmq, []) == LONGEST_WAIT
    assert longest_wait(redis, own[1:]) == 50


def test_a_queue_that_waits_for_too_long_is_asked_from_then_on() -> None:
    feed, fresh = shelf("waits"), shelf("empty")
    feed.put("a", "b")
    scene = Scene(feed, fresh)
    scene.look(LIMIT - 1)
    assert not scene.renewed
    scene.look(2)
    assert scene.renewed == ["waits"]
    assert scene.held.asked == {"waits"}


def test_until_it_flows() -> None:
    feed = shelf("waits")
    feed.put("a")
    scene = Scene(feed)
    scene.look(LIMIT + 1)
    [asked] = scene.feeds = [shelf("waits")]
    for given, expected in ((9, {"waits"}), (18, {"waits"}), (28, set())):
        asked.given = given
        scene.look(1)
        assert scene.held.asked == expected
    assert scene.renewed == ["waits", "waits"]


def test_of_one_that_is_asked_what_has_come_due_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shelf, "asks", True)
    feed = shelf("asked")
    [due] = feed.put("due")
    scene = Scene(feed)
    scene.look(LIMIT - 1)
    assert not due.acknowledged
    scene.look(2)
    assert due.acknowledged
    assert not feed.buffer
    assert not scene.renewed


def test_what_is_left_of_one_that_has_ended_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Soon, again and again, until the broker takes it."""
    feed = shelf("ended")
    waits, eta = feed.put("waits", "eta")
    feed.buffer.pop()
    feed.aside.put(eta, eta=True)
    feed.retire()
    scene = Scene()
    scene.retired, scene.now = [feed], eta.arrived
    monkeypatch.setattr(feed.dispositions, "give_back", lambda messages: None)
    for _ in range(3):
        scene.look(1)
        assert not waits.acknowledged
        assert scene.waits.pop() == SOON
    monkeypatch.undo()
    scene.look(1)
    assert waits.acknowledged
    assert not eta.acknowledged
    scene.look(LIMIT)
    assert scene.forgotten == ["eta"]
    assert scene.waits.pop() == LIMIT / 4


def test_one_that_cannot_be_asked_gives_back_and_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shelf, "may_be_asked", False)
    feed = shelf("exclusive")
    [message] = feed.put("a")
    scene = Scene(feed)
    scene.look(LIMIT + 1)
    assert message.acknowledged
    assert scene.renewed == []
    assert scene.held.asked == set()


def test_what_came_first_counts_wherever_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has come due since is before it."""
    monkeypatch.setattr(Shelf, "may_be_asked", False)
    feed = shelf()
    [message] = feed.put("a")
    scene = Scene(feed)
    [late] = feed.put("late")
    late.arrived = scene.now + LIMIT
    feed.buffer.rotate()
    scene.look(LIMIT + 1)
    assert message.acknowledged


def test_what_waits_for_its_eta_goes_back_and_is_forgotten() -> None:
    feed = shelf()
    eta, limited = feed.put("eta", "limited")
    feed.buffer.clear()
    feed.aside.put(eta, eta=True)
    feed.aside.put(limited, eta=False)
    scene = Scene(feed)
    scene.look(LIMIT + 1)
    assert scene.forgotten == ["eta"]
    assert not scene.renewed


@pytest.mark.parametrize("eta", [True, False])
def test_what_is_tried_again_and_again_goes_back_by_its_delivery(
    monkeypatch: pytest.MonkeyPatch, eta: bool
) -> None:
    """As what waits for the log: the broker knows nothing of its being tried."""
    feed = shelf(ports=ports()._replace(reports=Reports(Silent())))
    [message] = feed.put("a")
    feed.buffer.clear()
    feed.aside.put(message, eta, "later")
    scene = Scene(feed)
    monkeypatch.setattr("celery_fair.worker.queues.feed.monotonic", lambda: scene.now)
    scene.look(LIMIT / 2 + 1)
    feed.aside.due(message, None)
    feed.aside.put(message, eta, "later")
    assert not message.acknowledged
    scene.look(LIMIT / 2 + 1)
    assert scene.forgotten == ["a"]


def test_what_the_broker_does_not_take_stays_put_off(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = shelf()
    [eta] = feed.put("eta")
    feed.buffer.clear()
    feed.aside.put(eta, eta=True)
    monkeypatch.setattr(feed.dispositions, "give_back", lambda message: None)
    scene = Scene(feed)
    scene.look(LIMIT + 1)
    assert scene.forgotten == []
    assert eta.aside == "eta"


def test_when_all_is_over_nobody_looks() -> None:
    feed = shelf()
    feed.put("a")
    scene = Scene(feed)
    scene.is_over = True
    scene.look(LIMIT + 1)
    assert scene.renewed == scene.later == []


@pytest.mark.parametrize("error", [ValueError, ConnectionError])
def test_one_that_cannot_be_given_back_keeps_no_other(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = shelf("one"), shelf("two")
    for feed in (one, two):
        feed.put("a")
    scene = Scene(one, two)

    def renew(feed: Any) -> None:
        if feed is one:
            raise error("cannot")
        scene.renewed.append(feed.name)

    monkeypatch.setattr(scene, "renew", renew)
    if error is ConnectionError:
        with pytest.raises(ConnectionError):
            scene.look(LIMIT + 1)
    else:
        scene.look(LIMIT + 1)
        assert scene.renewed == ["two"]
        assert scene.later


@pytest.mark.parametrize("other_thread", [False, True])
def test_celery_forgets_the_requests_of_given_messages(other_thread: bool) -> None:
    heap, started = Timer(), []
    given, kept = SimpleNamespace(message=object()), SimpleNamespace(message=object())
    for request in (given, kept):
        heap.call_after(0, started.append, (request,))
    heap.call_after(0, started.append, (None,))
    patches.forget_timed(SimpleNamespace(schedule=heap) if other_thread else heap, [given.message])
    for _ in range(9):
        _, entry = next(iter(heap))
        if entry is not None and not entry.canceled:
            entry()
    assert started == [kept, None]


@pytest.mark.parametrize("green", ["", "gevent"])
def test_what_is_forgotten_is_held_no_more(green: str) -> None:
    """Until its ETA it may be given back, and come again, a thousand times."""
    heap: Any = import_module(f"celery.concurrency.{green}").Timer() if green else Timer()
    given, kept = SimpleNamespace(message=object()), SimpleNamespace(message=object())
    for request in (given, kept):
        heap.call_after(3600, print, (request,))
    patches.forget_timed(heap, [given.message])
    if green:
        import_module(green).sleep(0)
    [left] = heap._queue
    assert left.entry.args == (kept,)
    heap.clear()
