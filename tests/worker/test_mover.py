"""A broker that takes no letters is asked seldom; one that takes nothing back, with patience."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from amqp import AccessRefused, Message, PreconditionFailed
from amqp.exceptions import MessageNacked

from celery_fair.brokers.amqp_mover import AmqpMover
from celery_fair.brokers.mover import NotTakenError, StaysError
from celery_fair.worker.letters import Dispositions
from tests.worker.parts import shelf


class Channel:
    """As much of a channel as a mover asks; it refuses what it is told."""

    is_open = True
    connection = SimpleNamespace(frame_max=131_072)

    def __init__(self, refusals: list[Exception], published: list[str]) -> None:
        self._refusals = refusals
        self._published = published
        self.headers: dict[str, Any] = {}

    def prepare_message(self, body: bytes, **properties: Any) -> Message:
        self.headers = properties.get("headers", {})
        return Message(body)

    def basic_publish_confirm(self, copy: Message, exchange: str, **options: Any) -> None:
        if "mandatory" not in options:  # a probe
            return
        if self._refusals:
            raise self._refusals.pop(0)
        self._published.append(exchange)

    def nothing(self, *args: Any, **kwargs: Any) -> Any: ...

    prepare_queue_arguments = exchange_declare = queue_bind = confirm_select = nothing

    def queue_declare(self, queue: str, **options: Any) -> tuple[str, int, int]:
        return queue, 0, 0


class Broker:
    """A connection, and those that are made of it."""

    connection_errors = (OSError,)

    def __init__(self, *refusals: Exception) -> None:
        self.published: list[str] = []
        self.opened = 0
        self._channel = Channel(list(refusals), self.published)

    @property
    def headers(self) -> dict[str, Any]:
        """Of what was published last."""
        return self._channel.headers

    def clone(self, heartbeat: int) -> Broker:
        self.opened += 1
        return self

    def channel(self) -> Channel:
        return self._channel

    def collect(self) -> None: ...


def mover(*refusals: Exception) -> tuple[AmqpMover, Broker]:
    broker = Broker(*refusals)
    return AmqpMover("letters", broker), broker


def test_letters_that_are_refused_ask_no_more_for_a_while() -> None:
    moving, broker = mover(AccessRefused("no"))
    for message in shelf().put(*"abc"):
        with pytest.raises(NotTakenError):
            moving.dead_letter(message, {})
    assert broker.opened == 1


def test_a_letter_that_is_never_taken_keeps_no_other() -> None:
    """It is tried again when the others are: if they rested for it, each time, none would go."""
    too_large = [PreconditionFailed("message size 5000 is larger than 2000") for _ in range(3)]
    moving, broker = mover(*too_large)
    large, small = shelf().put(*"ab")
    with pytest.raises(NotTakenError):
        moving.dead_letter(large, {})
    assert moving.dead_letter(small, {})
    assert broker.published == ["letters"]


def test_a_letter_is_whole_though_its_channel_was_closed() -> None:
    """For an acknowledgement of nothing, say: it is the letter's fault only if it happens again."""
    moving, broker = mover(PreconditionFailed("unknown delivery tag"))
    [message] = shelf().put("a")
    assert moving.dead_letter(message, {})
    assert broker.published == ["letters"]
    assert broker.headers["id"] == "a"


def test_a_letter_that_no_channel_takes_is_described() -> None:
    refused = PreconditionFailed("invalid expiration")
    moving, broker = mover(refused, refused)
    [message] = shelf().put("a")
    assert moving.dead_letter(message, {})
    assert broker.published == ["letters"]
    assert "id" not in broker.headers


def test_what_is_given_back_is_not_copied_twice_though_its_channel_was_closed() -> None:
    moving, broker = mover(PreconditionFailed("unknown delivery tag"))
    [message] = shelf().put("a")
    with pytest.raises(NotTakenError):
        moving.give_back(message, {})
    assert broker.published == []


def test_what_is_given_back_does_not_wait_for_letters() -> None:
    moving, broker = mover(AccessRefused("no"))
    [one, two] = shelf().put(*"ab")
    with pytest.raises(NotTakenError):
        moving.dead_letter(one, {})
    moving.give_back(two, {})
    assert broker.published == [""]


def test_at_the_end_what_the_broker_has_surely_not_taken_is_tried_again() -> None:
    moving, broker = mover(MessageNacked(), MessageNacked())
    [message] = shelf().put("a")
    moving.last()
    moving.give_back(message, {})
    assert broker.published == [""]
    assert message.acknowledged


def test_but_not_what_it_may_have_taken() -> None:
    """It would be there twice."""
    moving, broker = mover(TimeoutError("no confirmation"))
    [message] = shelf().put("a")
    moving.last()
    with pytest.raises(NotTakenError):
        moving.give_back(message, {})
    assert broker.published == []
    assert not message.acknowledged


def test_what_it_may_have_taken_is_not_moved_again() -> None:
    """Each time there would be one more."""
    moving, broker = mover(TimeoutError("no confirmation"))
    dispositions = Dispositions({}, moving, None)  # type: ignore[arg-type]
    [message] = shelf().put("a")
    assert not dispositions.move(message, "lane")
    assert not dispositions.move(message, "lane")
    assert broker.published == []
    moving.dead_letter(message, {})
    assert broker.published == ["letters"]


def test_what_it_has_not_taken_is() -> None:
    moving, broker = mover(MessageNacked())
    [message] = shelf().put("a")
    with pytest.raises(NotTakenError):
        moving.move(message, "lane")
    moving.move(message, "lane")
    assert broker.published == [""]
    assert message.acknowledged


def test_what_is_too_large_to_be_copied_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Channel, "connection", SimpleNamespace(frame_max=10))
    moving, _ = mover()
    [message] = shelf().put("a")
    with pytest.raises(NotTakenError, match="its properties"):
        moving.move(message, "lane")
    with pytest.raises(StaysError):
        moving.move(message, "lane")


def test_what_a_broker_that_is_away_has_not_taken_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*args: Any, **options: Any) -> None:
        raise OSError("no broker")

    monkeypatch.setattr("celery_fair.brokers.amqp_mover._REST", 0)
    moving, broker = mover()
    [message] = shelf().put("a")
    with monkeypatch.context() as away:
        away.setattr(broker, "clone", fail)
        with pytest.raises(NotTakenError):
            moving.move(message, "lane")
    moving.move(message, "lane")
    assert broker.published == [""]


def test_before_the_end_nothing_waits_for_the_broker() -> None:
    moving, _ = mover(MessageNacked())
    [message] = shelf().put("a")
    with pytest.raises(NotTakenError):
        moving.give_back(message, {})


@pytest.mark.parametrize("dead", [True, False])
def test_a_copy_goes_nowhere_else(dead: bool) -> None:
    """RabbitMQ routes by the header CC, too, and has done so when the message was published."""
    moving, broker = mover()
    [message] = shelf().put("a", CC=["other"], BCC=["another"])
    if dead:
        moving.dead_letter(message, {})
    else:
        moving.give_back(message, {})
    assert broker.headers["id"] == "a"
    assert not {"CC", "BCC"} & broker.headers.keys()
