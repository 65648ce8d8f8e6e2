"""Depths of queues: known whatever the worker does, and unknown rather than wrong."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count

import pytest
from kombu import Connection

from celery_fair.brokers import depths as module
from celery_fair.brokers.depths import Depths
from tests.brokers import RabbitMQ, Space
from tests.faults.proxy import Proxy
from tests.publishing import publish
from tests.waiting import wait_equal, wait_for


@contextmanager
def asking(url: str, *queues: str) -> Iterator[Depths]:
    with closing(Depths(lambda: Connection(url), ())) as depths:
        depths.start()
        depths.ask_about(queues)
        yield depths
    assert "depths" not in {thread.name for thread in threading.enumerate()}


def messages(depths: Depths, queue: str) -> int | None:
    depth = depths.of(queue)
    return None if depth is None else depth.messages


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_EVERY", 0.05)
    monkeypatch.setattr(module, "_GOODBYE", 60)


def test_of_queues_that_are_and_that_are_not(space: Space) -> None:
    publish(space.url, {"a": 3, "b": 1})
    with asking(space.url, "gone", "a", "b") as depths:
        wait_equal(lambda: (messages(depths, "a"), messages(depths, "b")), (3, 1))
        assert not messages(depths, "gone")
        first = depths.of("a")
        publish(space.url, {"a": 2}, first=3)
        wait_equal(lambda: messages(depths, "a"), 5)
        assert first is not None
        later = depths.of("a")
        assert later is not None
        assert later.since == first.since
        assert first.at < later.at
        with Connection(space.url) as connection:
            connection.default_channel.queue_purge("a")
        wait_equal(lambda: messages(depths, "a"), 0)
        emptied = depths.of("a")
        assert emptied is not None
        assert emptied.since > first.since
        depths.ask_about(["b"])
        wait_equal(lambda: messages(depths, "a"), None)


def test_an_answer_is_of_when_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says may have been so at any time since then."""
    clock = count()
    monkeypatch.setattr(module, "monotonic", lambda: float(next(clock)))
    depths = Depths(lambda: None, ())
    depths.ask_about(["a"])
    known = depths._asked(lambda queue: int(10 + next(clock)))
    assert known["a"] == (11, 2.0, 0.0)


def test_a_broker_that_is_silent(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 2)
    publish(space.url, {"a": 3})
    with Proxy(space) as proxy:
        with asking(proxy.url, "a") as depths:
            wait_equal(lambda: messages(depths, "a"), 3)
            proxy.hold("down")
            wait_equal(lambda: messages(depths, "a"), None)
            proxy.release()
            wait_equal(lambda: messages(depths, "a"), 3)
            proxy.cut()
            wait_equal(lambda: messages(depths, "a"), 3)
            proxy.hold("down")
        proxy.release()


@pytest.mark.wide
def test_a_broker_that_is_restarted(own_rabbitmq: RabbitMQ) -> None:
    space = own_rabbitmq.space()
    publish(space.url, {"a": 3})
    with asking(space.url, "a") as depths:
        wait_equal(lambda: messages(depths, "a"), 3)
        own_rabbitmq.stop()
        wait_equal(lambda: messages(depths, "a"), None)
        own_rabbitmq.restart()
        wait_for(lambda: messages(depths, "a") == 3, 30, "an answer after the restart")


def test_in_memory() -> None:
    with Connection("memory://") as connection, asking("memory://", "depths.a") as depths:
        queue = connection.SimpleQueue("depths.a")
        queue.put("x")
        wait_equal(lambda: messages(depths, "depths.a"), 1)
        queue.clear()
        queue.close()
