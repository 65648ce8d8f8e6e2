"""A refill that a busy broker delivers late is waited for, as long as the broker has more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from amqp import spec
from kombu import Queue

from celery_fair.core.window import RefillMeter
from celery_fair.worker.queues.amqp import AmqpFeed
from tests.feeds import gate, ports
from tests.worker.parts import Channel
from tests.worker.test_dispatcher import Scene

MODULE = "celery_fair.worker.queues.amqp"
PATIENCE = RefillMeter().patience
REFILL = 1.0
"""Seconds for which the broker's word is taken, as the docs say."""


class Broker(Channel):
    """Has so many messages ready, and sends them when a test says so."""

    channel_id = 1
    ready = 0

    def __init__(self) -> None:
        super().__init__()
        self._callbacks = {spec.Channel.Close: lambda *args: None}

    def basic_qos(self, size: int, count: int, for_all: bool) -> None: ...

    def basic_consume(self, consumer_tag: str, callback: Any, **options: Any) -> None:
        self.tag, self._callback = consumer_tag, callback

    def queue_declare(self, name: str, passive: bool) -> Any:
        assert passive
        return SimpleNamespace(message_count=self.ready)

    def message_to_python(self, raw: Any) -> Any:
        return raw

    def send(self, *ids: str) -> None:
        for id_ in ids:
            message = self.Message(
                body="[[], {}, {}]",
                channel=self,
                delivery_tag=id_,
                delivery_info={"routing_key": "late", "consumer_tag": self.tag},
                headers={"id": id_, "task": "t"},
                content_type="application/json",
                content_encoding="utf-8",
            )
            self._callback(message)


class Late:
    """Two queues, of which one gets four messages a round, and a window of two."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.scene = scene = Scene(slots=100)
        monkeypatch.setattr(f"{MODULE}.monotonic", lambda: scene.now)
        self.broker, opened = Broker(), gate(4.0)
        feed = AmqpFeed(
            Queue("late"),
            self.broker,
            scene.chooser.add("late", 4.0, 0, opened),
            2,
            opened,
            ports()._replace(reports=scene.reports),
            meter=RefillMeter(),
            acks=SimpleNamespace(flush=lambda: None),  # type: ignore[arg-type]
        )
        scene.feeds.add(feed)
        feed.open()
        scene.queue("other").put(*"abc")
        self.broker.send("A", "B")

    def after(self, seconds: float) -> str:
        """What has started by then; the dispatcher runs as often as it asked for."""
        until = self.scene.now + seconds
        while self.scene.now < until:
            self.scene.now += PATIENCE
            self.scene.run()
        return self.scene.launcher.ids


def test_a_queue_of_which_the_broker_has_more_keeps_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late = Late(monkeypatch)
    late.broker.ready = 2
    assert late.scene.run() == "aAB"
    assert late.after(REFILL / 2) == "aAB"

    late.broker.send("C", "D")
    assert late.scene.run().startswith("aABCD")


@pytest.mark.parametrize(("ready", "seconds"), [(0, 2 * PATIENCE), (2, REFILL + 2 * PATIENCE)])
def test_it_is_not_waited_for_longer_than_the_broker_can_be_believed(
    monkeypatch: pytest.MonkeyPatch, ready: int, seconds: float
) -> None:
    """There are none, or somebody else gets them."""
    late = Late(monkeypatch)
    late.broker.ready = ready
    late.scene.run()
    assert late.after(seconds) == "aABbc"
