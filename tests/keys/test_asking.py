"""Messages of lanes that are asked for before a slot is free for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import pack
from typing import Any

import pytest
from amqp import Message, RecoverableConnectionError, spec
from kombu import Queue

from celery_fair.brokers.lanes import Lanes
from celery_fair.core.dwrr import Flow
from celery_fair.core.keys.front import Front
from celery_fair.settings import KeyedQueue
from celery_fair.worker.amqp_io.writer import AckWriter, Questions
from celery_fair.worker.queues.keyed.by_key import KeyedParts
from celery_fair.worker.queues.keyed.key_slots import KeySlots
from celery_fair.worker.queues.keyed.lane_watch import LaneWatch
from celery_fair.worker.queues.keyed.lanes import LanesFeed
from celery_fair.worker.queues.keyed.store import StoreLink
from tests.fast_path.broker import Broker, connected
from tests.fast_path.wire import BODY, HEADER, METHOD, frame, method
from tests.feeds import gate, ports

CHANNEL = 1


def get(queue: str) -> bytes:
    return frame(METHOD, CHANNEL, method(spec.Basic.Get, "Bsb", (0, queue, False)))


def ack(tag: int) -> bytes:
    return frame(METHOD, CHANNEL, method(spec.Basic.Ack, "Lb", (tag, False)))


def count(queue: str) -> bytes:
    passive: tuple[Any, ...] = (0, queue, True, False, False, False, False, {})
    return frame(METHOD, CHANNEL, method(spec.Queue.Declare, "BsbbbbbF", passive))


def header(size: int, headers: dict[str, Any]) -> bytes:
    message: Any = Message(application_headers=headers)
    return pack(">HHQ", 60, 0, size) + bytes(message._serialize_properties())


def got(tag: int, left: int, key: str = "a") -> bytes:
    body = b"[[], {}, {}]"
    info = method(spec.Basic.GetOk, "Lbssl", (tag, False, "", "jobs.fair.0", left))
    headers = {"task": "t", "id": str(tag), "x-fair-key": key}
    return b"".join(
        [
            frame(METHOD, CHANNEL, info),
            frame(HEADER, CHANNEL, header(len(body), headers)),
            frame(BODY, CHANNEL, body),
        ]
    )


NONE = frame(METHOD, CHANNEL, method(spec.Basic.GetEmpty, "s", ("",)))


def counted(messages: int) -> bytes:
    return frame(METHOD, CHANNEL, method(spec.Queue.DeclareOk, "sll", ("jobs", messages, 0)))


def channel_of(broker: Broker, connection: Any) -> Any:
    broker.say(CHANNEL, spec.Channel.OpenOk, "S", ("",))
    channel = connection.channel()
    broker.received_until(frame(METHOD, CHANNEL, method(spec.Channel.Open, "s", ("",))))
    return channel


class Asking:
    """A channel on which something is asked."""

    def __init__(self, broker: Broker, connection: Any) -> None:
        self.broker = broker
        self.channel = channel_of(broker, connection)
        self.acks = AckWriter(connection, lambda: None)
        self.questions = Questions(self.channel, self.acks)


@pytest.fixture
def asking() -> Iterator[Asking]:
    with connected() as (broker, connection):
        yield Asking(broker, connection)


def test_several_questions_are_one_write_with_what_waits_to_be_acknowledged(
    asking: Asking,
) -> None:
    asking.acks.ack(asking.channel, 7)
    asking.questions.ask("jobs", ["jobs.fair.0", "jobs.fair.1"])
    asking.acks.flush(more=True)
    sent = ack(7) + count("jobs") + get("jobs.fair.0") + get("jobs.fair.1")
    assert asking.broker.received(len(sent)) == sent


def test_answers_come_in_the_order_of_the_questions(asking: Asking) -> None:
    asking.questions.ask("jobs", ["jobs.fair.0", "jobs.fair.1", "jobs.fair.0"])
    asking.broker.send(counted(3) + got(1, 5) + NONE + got(2, 4))
    asking.questions.wait()
    first, none, second = asking.questions.answers
    assert asking.questions.take_count() == 3
    assert (first.delivery_info["delivery_tag"], none) == (1, None)
    assert second.delivery_info["message_count"] == 4


def test_what_was_read_with_an_answer_waits_for_no_other(asking: Asking) -> None:
    returned: list[Any] = []
    asking.channel.events["basic_return"].add(lambda *args: returned.append(args))
    asking.questions.ask(None, ["jobs.fair.0"])
    back = method(spec.Basic.Return, "Bsss", (0, "no", "", "somewhere"))
    rest = [frame(METHOD, CHANNEL, back), frame(HEADER, CHANNEL, header(0, {}))]
    asking.broker.send(NONE + b"".join(rest))
    asking.questions.wait()
    assert len(returned) == 1


def test_a_channel_that_was_closed_has_no_answers(asking: Asking) -> None:
    asking.questions.ask(None, ["jobs.fair.0"])
    asking.broker.send(got(1, 0))
    asking.questions.wait()
    asking.channel.collect()
    asking.questions.answers.clear()
    with pytest.raises(RecoverableConnectionError):
        asking.questions.wait()
    with pytest.raises(RecoverableConnectionError):
        asking.questions.ask(None, ["jobs.fair.0"])


class Feed:
    """One of a queue whose lane 0 is known to have messages, and whose front to have none."""

    def __init__(
        self,
        broker: Broker,
        connection: Any,
        free: int,
        depth: int,
        looked: bool = True,
        asks_ahead: bool = True,
    ) -> None:
        self.broker = broker
        self.acks = AckWriter(connection, lambda: None)
        self.calls: list[Callable[[], object]] = []
        lanes = Lanes(lambda: None, Queue("jobs"), 8)
        watch: Any = LaneWatch(lanes, lanes, None)  # type: ignore[arg-type]
        watch.found[0] = depth, ("a", "")
        watch.start = watch.stop = lambda *_, **__: None
        self.closed: list[Any] = []
        parts = KeyedParts(
            KeyedQueue("jobs"),
            KeySlots(lambda: None, {}),
            asks_ahead,
            StoreLink(KeyedQueue("jobs"), None),
            usual=lambda: 1.0,
            free=lambda: free,
            later=lambda seconds, call: self.calls.append(call),
        )
        self.feed = LanesFeed(
            queue=Queue("jobs"),
            channel=channel_of(broker, connection),
            flow=Flow("jobs", 1.0),
            window=1,
            gate=gate(),
            ports=ports(closed=self.closed.append),
            accept=["json"],
            acks=self.acks,
            interval=1.0,
            eager=False,
            watch=watch,
            parts=parts,
        )
        self.feed.open()
        self.choice = self.feed._choice
        if looked:
            self.choice.front, self.choice._look_at = 0, math.inf

    def sends(self, data: bytes) -> None:
        self.acks.flush()
        assert self.broker.received(len(data)) == data

    def looks_into_the_front(self, answer: bytes) -> None:
        self.broker.send(answer)
        self.feed._ask([None])
        assert not self.feed._have_come()

    def holds(self, tenant: str) -> None:
        """It may start nothing."""
        self.choice._until[tenant] = math.inf
        self.choice.hold(tenant)

    def take(self) -> str:
        return str(self.feed.take(0.0, 0).headers["id"])


@contextmanager
def feeding(free: int = 1, depth: int = 9, asks_ahead: bool = True) -> Iterator[Feed]:
    with connected() as (broker, connection):
        yield Feed(broker, connection, free, depth, asks_ahead=asks_ahead)


LANE = "jobs.fair.0"


def test_as_many_as_slots_are_free_are_asked_for_at_once() -> None:
    with feeding(free=3) as feed:
        feed.broker.send(got(1, 8) + got(2, 7) + got(3, 6))
        assert [feed.take() for _ in range(2)] == ["1", "2"]
        feed.sends(3 * get(LANE))


def test_the_next_ones_are_asked_for_before_they_are_needed() -> None:
    with feeding(free=3) as feed:
        feed.broker.send(got(1, 8) + got(2, 7) + got(3, 6))
        here, taken = zip(*((feed.feed.startable, feed.take()) for _ in range(3)), strict=True)
        assert ([item is None for item in here], taken) == ([True, False, False], ("1", "2", "3"))
        feed.sends(3 * get(LANE) + get(LANE))
        feed.broker.send(got(4, 5))
        assert feed.take() == "4"


def test_one_is_asked_for_while_the_front_is_not_sorted() -> None:
    """Who is behind its first message may be next."""
    with feeding(free=3) as feed:
        feed.looks_into_the_front(got(1, 0, "b"))
        feed.choice.front, feed.choice._look_at = 0, math.inf
        feed.holds("b")  # and so all the next turns are a's
        feed.broker.send(got(2, 8))
        assert feed.take() == "2"
        feed.sends(get("jobs") + get(LANE))
        assert not feed.feed._picked


def test_one_is_asked_for_while_nobody_knows_what_the_front_has() -> None:
    """That is asked with it."""
    with feeding(free=3) as feed:
        feed.choice._look_at = 0.0
        feed.broker.send(counted(1) + got(1, 8))
        assert feed.take() == "1"
        feed.sends(count("jobs") + get(LANE))
        assert not feed.feed._picked


def test_the_front_is_looked_into_first() -> None:
    with connected() as (broker, connection):
        feed = Feed(broker, connection, 3, 9, looked=False)
        feed.choice.found(0, 9)
        assert feed.choice.step(1.0, 0.0) is Front.GET
        feed.looks_into_the_front(got(1, 0, "b"))
        assert feed.choice.head == ("b", "")


def test_no_more_is_asked_for_than_is_there() -> None:
    with feeding(free=8, depth=2) as feed:
        feed.broker.send(got(1, 1) + got(2, 0))
        assert [feed.take() for _ in range(2)] == ["1", "2"]
        feed.sends(2 * get(LANE))


def test_where_a_task_is_non_repeatable_one_is_asked_for_when_it_starts() -> None:
    with feeding(free=8, asks_ahead=False) as feed:
        feed.broker.send(got(1, 8))
        assert feed.take() == "1"
        assert not feed.feed.buffer
        assert not feed.feed._picked
        feed.sends(get(LANE))
        feed.broker.send(got(2, 7))
        assert feed.take() == "2"


def test_what_does_not_start_goes_back() -> None:
    with feeding(free=3) as feed:
        feed.broker.send(got(1, 8) + got(2, 7) + got(3, 6))
        assert feed.take() == "1"
        feed.sends(3 * get(LANE))
        first, second = feed.feed.buffer
        first.arrive(0.0)
        [look] = feed.calls
        look()
        feed.sends(frame(METHOD, CHANNEL, method(spec.Basic.Reject, "Lb", (2, True))))
        assert list(feed.feed.buffer) == [second]
        assert len(feed.calls) == 2


def test_what_is_not_taken_back_stays_and_meanwhile_nobody_starts_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with feeding(free=3) as feed:
        feed.broker.send(got(1, 8) + got(2, 7) + got(3, 6))
        assert feed.take() == "1"
        waiting = list(feed.feed.buffer)
        for message in waiting:
            message.arrive(0.0)

        def refuse(messages: list[Any]) -> None:
            assert (messages, list(feed.feed.buffer)) == (waiting, [])
            raise ConnectionError

        monkeypatch.setattr(feed.feed.dispositions, "give_back", refuse)
        with pytest.raises(ConnectionError):
            feed.calls[0]()
        assert list(feed.feed.buffer) == waiting


def test_what_is_on_its_way_goes_back_with_the_rest() -> None:
    with feeding(free=3) as feed:
        feed.broker.send(got(1, 8) + got(2, 7) + got(3, 6))
        assert [feed.take() for _ in range(3)] == ["1", "2", "3"]
        feed.broker.send(got(4, 5) + got(5, 4))  # which are asked for, by now
        feed.feed.hand_back()
        assert not feed.feed.buffer
        sent = feed.broker.received_until(
            frame(METHOD, CHANNEL, method(spec.Basic.Reject, "Lb", (5, True)))
        )
        assert sent.count(get(LANE)) == 5


def test_a_lane_of_another_key_is_charged_to_that() -> None:
    with feeding(free=2) as feed:
        feed.broker.send(got(1, 8, "b") + got(2, 7, "b"))
        assert feed.take() == "1"
        tags = feed.choice.tags.tenants
        assert "a" not in tags
        assert (tags.tag("b") or 0.0) >= 1.5  # two messages, the first of which costs half at least


def test_a_lane_that_is_found_again_is_not_new() -> None:
    """Nothing is taken out for as long as its queue is paused, say."""
    lanes = Lanes(lambda: None, Queue("jobs"), 8)
    watch = LaneWatch(lanes, lanes, None)  # type: ignore[arg-type]
    for depth in range(9, 99):
        watch._take_in({0: depth, 1: 0, 2: depth})
    assert watch.found == {0: (9, None), 2: (9, None)}


def test_the_front_is_looked_into_while_all_lanes_wait() -> None:
    """Nothing is asked of them, and so nothing along with that."""
    with feeding() as feed:
        feed.broker.send(got(1, 8))
        assert feed.take() == "1"
        feed.sends(get(LANE))
        feed.holds("a")
        feed.choice._look_at = 0.0
        feed.broker.send(counted(1) + got(2, 0, "b"))
        assert feed.take() == "2"


def test_a_lane_that_is_not_there_is_declared_with_the_queue() -> None:
    with feeding(free=2) as feed:
        close = (404, "no queue", *spec.Basic.Get)
        feed.broker.say(CHANNEL, spec.Channel.Close, "BsBB", close)
        assert feed.feed.take(0.0, 0) is None
        assert feed.closed == [feed.feed]  # and the queue's recovery sees to it
