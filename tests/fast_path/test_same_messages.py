"""Both ways of reading from an AMQP broker hand over the same messages in the same order."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Thread
from typing import Any

import pytest
from amqp import spec
from amqp.serialization import decode_properties_basic
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from celery_fair.worker.fast_path.properties import decode_properties
from tests.fast_path import wire
from tests.fast_path.broker import FRAME_MAX, Worker, outcome, working
from tests.fast_path.wire import HEARTBEAT, METHOD, deliver, frame, method

FEEDS = ("a", "b", "c")
OTHER = len(FEEDS) + 1
"""The channel that has no feed."""

OLD, NEW, FOREIGN, UNKNOWN = "fair.{}.1", "fair.{}.2", "other", "nobody's"


@dataclass
class Stream:
    """What a broker sends, on several channels."""

    frames: list[bytes]
    cuts: list[int]

    @property
    def data(self) -> bytes:
        return b"".join(self.frames)

    @property
    def pieces(self) -> list[bytes]:
        data = self.data
        cuts = sorted({cut % len(data) for cut in self.cuts} - {0}) if data else []
        return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


@st.composite
def said(draw: st.DrawFn, channel: int, number: int) -> wire.Frames:
    """Something that a broker says on a channel, as a rule a delivery."""
    name = FEEDS[channel - 1] if channel != OTHER else ""
    kind = draw(st.integers(0, 11))
    if kind == 0:
        return [(METHOD, method(spec.Channel.Flow, "b", (draw(st.booleans()),)))]
    if kind == 1:
        args = (312, "NO_ROUTE", "", "a")
        chunks, properties = draw(wire.contents())
        sent = [(METHOD, method(spec.Basic.Return, "Bsss", args))]
        return sent + wire.content(chunks, properties)
    if kind == 2 and name:
        tag = draw(st.sampled_from([OLD, NEW])).format(name)
        return [(METHOD, method(spec.Basic.Cancel, "sb", (tag, True)))]
    tags = [NEW.format(name)] * 5 + [OLD.format(name), UNKNOWN] if name else [FOREIGN, UNKNOWN]
    chunks, properties = draw(wire.contents())
    return deliver(
        draw(st.sampled_from(tags)),
        number,
        chunks,
        properties,
        draw(st.booleans()),
        draw(st.sampled_from(["", "ex", "é" * 100])),
        draw(wire.WORDS),
    )


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    waiting: dict[int, list[bytes]] = {}
    for channel in range(1, OTHER + 1):
        count = draw(st.integers(0, 6))
        frames, cancelled = [], set()
        for number in range(1, count + 1):
            parts = draw(said(channel, number))
            if parts[0][1].startswith(method(spec.Basic.Cancel)):
                if parts[0][1] in cancelled:
                    continue
                cancelled.add(parts[0][1])
            frames += [frame(kind, channel, payload) for kind, payload in parts]
        waiting[channel] = frames
    turns = draw(st.permutations([c for c, frames in waiting.items() for _ in frames]))
    mixed = []
    for channel in turns:
        if draw(st.integers(0, 5)) == 0:
            mixed.append(frame(HEARTBEAT, 0, b""))
        mixed.append(waiting[channel].pop(0))
    return Stream(mixed, draw(st.lists(st.integers(0, 10**6), max_size=20)))


def set_up(worker: Worker) -> Any:
    """Subscribe to three queues, each for the second time, and to another one, without a feed."""
    for name in FEEDS:
        feed = worker.feed(name)
        worker.answer_subscription(feed)
        feed.open()
    return worker.consumer(FOREIGN)


def end_of(worker: Worker, channel: Any) -> bytes:
    """What the worker has written, for a well-known end."""
    channel.basic_reject(4711, True)
    return worker.broker.received_until(
        frame(METHOD, OTHER, method(spec.Basic.Reject, "Lb", (4711, True)))
    )


def plainly(data: bytes) -> tuple[list[Any], bytes]:
    with working(fast=False) as worker:
        channel = set_up(worker)
        worker.broker.send(data)
        worker.read_all(channel)
        return worker.log, end_of(worker, channel)


def fast(pieces: list[bytes]) -> tuple[list[Any], bytes]:
    with working(fast=True) as worker:
        channel = set_up(worker)
        for piece in pieces:
            worker.broker.send(piece)
            worker.read()
        worker.read_all(channel)
        return worker.log, end_of(worker, channel)


@settings(deadline=None, max_examples=60)
@given(streams())
def test_of_any_stream_in_any_pieces(stream: Stream) -> None:
    assume(stream.frames)
    assert fast(stream.pieces) == plainly(stream.data)


SMALL = [
    ("a", deliver("fair.a.2", 1, [b"[1, ", b"2]"], b"\x80\0" + wire.short_string("text/plain"))),
    ("b", deliver("fair.b.2", 1, [])),
    ("b", deliver("fair.b.1", 2, [b"x"], wire.properties({wire.HEADERS: wire.table([])}))),
]


def test_cut_at_every_byte() -> None:
    data = b"".join(
        frame(HEARTBEAT, 0, b"") + frame(kind, FEEDS.index(name) + 1, payload)
        for name, frames in SMALL
        for kind, payload in frames
    )
    expected = plainly(data)
    assert fast([data[at : at + 1] for at in range(len(data))]) == expected
    for at in range(1, len(data), 7):
        assert fast([data[:at], data[at:]]) == expected


def test_30_megabytes() -> None:
    size = FRAME_MAX - 8
    body = bytes(range(256)) * (30 * 2**20 // 256)
    chunks = [body[at : at + size] for at in range(0, len(body), size)]
    frames = deliver(NEW.format("a"), 1, chunks) + deliver(NEW.format("a"), 2, [b"next"])
    data = b"".join(frame(kind, 1, payload) for kind, payload in frames)
    for is_fast in (False, True):
        with working(is_fast) as worker:
            set_up(worker)
            worker.sees = lambda message: len(message.body)
            sending = Thread(target=worker.broker.send, args=(data,))
            sending.start()
            worker.read_until(("a", len(b"next")))
            sending.join()
            big, after = worker.feeds["a"].buffer
            assert big.body == body
            assert after.body == b"next"


@pytest.mark.parametrize("cut", [1, 7, 20, 40, 60])
def test_an_answer_is_waited_for_amid_a_frame(cut: int) -> None:
    frames = [
        *((1, *part) for part in deliver(NEW.format("a"), 1, [b"first"])),
        *((2, *part) for part in deliver(NEW.format("b"), 1, [b"second"])),
    ]
    data = b"".join(frame(kind, channel, payload) for channel, kind, payload in frames)
    answer = method(spec.Queue.DeclareOk, "sll", ("a", 5, 1))
    with working(fast=True) as worker:
        other = set_up(worker)
        worker.broker.send(data[:cut])
        worker.read()
        worker.broker.send(data[cut:] + frame(METHOD, 1, answer) + data[:cut])
        declared = worker.feeds["a"].channel.queue_declare("a", passive=True)
        assert declared.message_count == 5
        worker.broker.send(data[cut:])
        worker.read_all(other)
        assert [message.body for message in worker.feeds["a"].buffer] == [b"first"] * 2
        assert [name for name, _ in worker.log] == ["a", "b", "a", "b", FOREIGN]


@pytest.mark.parametrize("cut", [0, 1, 7, 20])
def test_a_consumer_that_is_no_feed_waits_for_an_answer(cut: int) -> None:
    def ask(raw: Any) -> None:
        worker.log.append(("asking", raw.body))
        channel.queue_declare("c", passive=True)
        worker.log.append(("answered", raw.body))

    feeds = b"".join(frame(kind, 1, payload) for kind, payload in deliver("fair.a.2", 1, [b"x"]))
    answer = method(spec.Queue.DeclareOk, "sll", ("c", 5, 1))
    with working(fast=True) as worker:
        other = set_up(worker)
        channel = worker.consumer("asks", ask)
        asked = b"".join(
            frame(kind, channel.channel_id, payload) for kind, payload in deliver("asks", 1, [b"?"])
        )
        answered = frame(METHOD, channel.channel_id, answer)
        worker.broker.send(asked + feeds + feeds[:cut])
        sending = Thread(target=worker.broker.send, args=(feeds[cut:] + answered + feeds,))
        sending.start()
        worker.read()
        sending.join()
        worker.read_all(other)
        names = [name for name, _ in worker.log]
        assert names == ["asking", "a", "a", "answered", "a", FOREIGN]


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("cut", [0, 1, 7, 20])
def test_the_broker_closes_a_feeds_channel_amid_a_frame(cut: int, fast: bool) -> None:
    """Which is that queue's affair: the others' messages come."""
    others = b"".join(frame(kind, 2, payload) for kind, payload in deliver("fair.b.2", 1, [b"x"]))
    close = method(spec.Channel.Close, "BsBB", (404, "NOT_FOUND", 0, 0))
    with working(fast) as worker:
        other = set_up(worker)
        worker.broker.send(frame(METHOD, 1, close) + others[:cut])
        answering = Thread(target=answer, args=(worker, others[cut:]))
        answering.start()
        worker.read()
        answering.join()
        worker.read_all(other)
        assert [name for name, _ in worker.log] == ["closed", "b", FOREIGN]


@settings(deadline=None, max_examples=300)
@given(wire.PROPERTIES, wire.PROPERTIES)
def test_properties_of_messages_that_are_alike(
    some: dict[int, bytes], others: dict[int, bytes]
) -> None:
    mixed = {flag: others.get(flag, value) for flag, value in some.items()}
    for values in (some, others, mixed, some):
        buffer = bytes(12) + wire.properties(values)
        for _ in range(2):
            found = decode_properties(buffer, 12)
            assert in_any_order(found) == in_any_order(decode_properties_basic(buffer, 12)[0])
            spoil(found)


SAME_LENGTH = st.sampled_from(
    [
        st.binary(min_size=8, max_size=8).map(lambda data: b"S\0\0\0\x08" + data),
        st.text("äöab", min_size=4, max_size=4).map(
            lambda text: b"S\0\0\0\x08" + text.encode().ljust(8, b".")
        ),
        st.binary(min_size=8, max_size=8).map(lambda data: b"x\0\0\0\x08" + data),
        st.sampled_from([b"A\0\0\0\x08VVVVVVVV", b"F\0\0\0\x08\1aV\1bu\0\2"]),
    ]
).flatmap(lambda strategy: strategy)


@settings(deadline=None, max_examples=300)
@given(st.lists(st.lists(SAME_LENGTH, min_size=2, max_size=2), min_size=2, max_size=20))
def test_properties_of_the_same_length(messages: list[list[bytes]]) -> None:
    for first, second in messages:
        headers = wire.table([(b"a", first), (b"b", second), (b"l", b"A" + wire.long_string(b"V"))])
        buffer = bytes(12) + wire.properties({wire.HEADERS: headers, wire.PRIORITY: b"\3"})
        found = decode_properties(buffer, 12)
        assert in_any_order(found) == in_any_order(decode_properties_basic(buffer, 12)[0])
        spoil(found)


@settings(deadline=None, max_examples=300)
@given(wire.PROPERTIES, st.data())
def test_properties_that_are_malformed(values: dict[int, bytes], data: st.DataObject) -> None:
    whole = bytes(12) + wire.properties(values)
    decode_properties(whole, 12)
    at = data.draw(st.integers(12, len(whole) - 1))
    broken = data.draw(
        st.sampled_from(
            [whole[:at], whole[:at] + bytes([data.draw(st.integers(0, 255))]) + whole[at + 1 :]]
        )
    )
    for _ in range(2):
        assert outcome(lambda: decode_properties(broken, 12)) == outcome(
            lambda: decode_properties_basic(broken, 12)[0]
        )


def answer(worker: Worker, data: bytes) -> None:
    """Send on when the worker has agreed to the end of its first channel."""
    worker.broker.received_until(frame(METHOD, 1, method(spec.Channel.CloseOk)))
    worker.broker.send(data)


def in_any_order(properties: dict[str, Any]) -> Any:
    """As text, since NaN equals nothing; the properties' own order means nothing."""
    return {name: repr(value) for name, value in properties.items()}


def spoil(value: Any) -> None:
    """Change all that can be changed in it."""
    if isinstance(value, dict | list):
        for item in list(value.values() if isinstance(value, dict) else value):
            spoil(item)
        value.clear()


def test_what_cannot_be_decoded_spoils_no_other_message() -> None:
    broken = wire.properties({wire.CONTENT_TYPE: wire.short_string(b"\xff")})
    with working(fast=True) as worker:
        worker.sees = lambda message: None
        feed = worker.feed("a")
        for number, properties in enumerate([b"\0\0", broken, b"\0\0"], 1):
            for kind, payload in deliver(feed._tag, number, [b"body"], properties):
                worker.broker.send(frame(kind, 1, payload))
        worker.read_all(worker.consumer(FOREIGN))
        assert [message.body for message in feed.buffer] == [b"body"] * 3
        assert [len(message.errors) for message in feed.buffer] == [0, 1, 0]
        assert feed.buffer[1].headers == {}
        with pytest.raises(UnicodeDecodeError):
            feed.buffer[1]._reraise_error()
