"""AMQP 0-9-1 as a broker writes it, of any content that a broker may send."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from struct import pack
from typing import Any

from amqp import spec
from amqp.serialization import dumps
from hypothesis import strategies as st

Frames = list[tuple[int, bytes]]
"""Kinds and payloads."""

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8

CONTENT_TYPE, CONTENT_ENCODING, HEADERS, DELIVERY_MODE, PRIORITY = (
    0x8000,
    0x4000,
    0x2000,
    0x1000,
    0x0800,
)
STRINGS = (0x0400, 0x0200, 0x0100, 0x0080)
TIMESTAMP = 0x0040
LATE_STRINGS = (0x0020, 0x0010, 0x0008, 0x0004)


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def method(signature: tuple[int, int], form: str = "", values: Sequence[Any] = ()) -> bytes:
    return pack(">HH", *signature) + (dumps(form, values) if form else b"")


def content(chunks: Iterable[bytes], properties: bytes = b"\0\0") -> Frames:
    chunks = list(chunks)
    header = pack(">HHQ", 60, 0, sum(map(len, chunks))) + properties
    return [(HEADER, header), *((BODY, chunk) for chunk in chunks)]


def deliver(
    tag: str,
    number: int,
    chunks: Iterable[bytes],
    properties: bytes = b"\0\0",
    redelivered: bool = False,
    exchange: str = "",
    key: str = "a",
) -> Frames:
    args = (tag, number, redelivered, exchange, key)
    return [(METHOD, method(spec.Basic.Deliver, "sLbss", args)), *content(chunks, properties)]


def short_string(text: str | bytes) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return bytes([len(data)]) + data


def long_string(data: bytes) -> bytes:
    return pack(">I", len(data)) + data


def table(items: Iterable[tuple[bytes, bytes]]) -> bytes:
    return long_string(b"".join(short_string(name) + value for name, value in items))


def properties(values: dict[int, bytes]) -> bytes:
    """Encode properties, by flag."""
    ordered = sorted(values.items(), reverse=True)
    return pack(">H", sum(values)) + b"".join(value for _, value in ordered)


def numbers(letter: bytes, code: str, low: int, high: int) -> st.SearchStrategy[bytes]:
    return st.integers(low, high).map(lambda number: letter + pack(f">{code}", number))


def signed(letter: bytes, code: str, bits: int) -> st.SearchStrategy[bytes]:
    return numbers(letter, code, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def unsigned(letter: bytes, code: str, bits: int) -> st.SearchStrategy[bytes]:
    return numbers(letter, code, 0, 2**bits - 1)


CHARACTERS = st.characters(exclude_categories=["Cs"])
"""All that UTF-8 has. Hypothesis would try each of them, if it were asked for by that name."""

WORDS = st.text(CHARACTERS, max_size=5)
TEXTS = st.text(CHARACTERS, max_size=20).map(str.encode)
BYTES = st.binary(max_size=20)
"""Not UTF-8, as a rule."""

NAMES = st.one_of(st.sampled_from([b"a", b"b", b"id", b"task"]), TEXTS, BYTES)

SCALARS = st.one_of(
    (TEXTS | BYTES).map(lambda data: b"S" + long_string(data)),
    BYTES.map(lambda data: b"x" + long_string(data)),
    st.sampled_from([b"t\0", b"t\1", b"t\7", b"V"]),
    signed(b"b", "b", 8),
    unsigned(b"B", "B", 8),
    signed(b"U", "h", 16),
    unsigned(b"u", "H", 16),
    signed(b"s", "h", 16),
    signed(b"I", "i", 32),
    unsigned(b"i", "I", 32),
    signed(b"L", "q", 64),
    signed(b"l", "q", 64),
    numbers(b"T", "Q", 0, 4 * 10**9),
    st.floats(width=32).map(lambda number: b"f" + pack(">f", number)),
    st.floats().map(lambda number: b"d" + pack(">d", number)),
    st.tuples(st.integers(0, 20), st.integers(-(2**31), 2**31 - 1)).map(
        lambda decimal: b"D" + pack(">Bi", *decimal)
    ),
)

VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: b"A" + long_string(b"".join(items))),
        st.lists(st.tuples(NAMES, inner), max_size=3).map(lambda items: b"F" + table(items)),
    ),
    max_leaves=4,
)

TABLES = st.lists(st.tuples(NAMES, VALUES), max_size=5).map(table)

STRING_PROPERTIES = TEXTS.map(short_string)
OCTETS = unsigned(b"", "B", 8)

PROPERTIES = st.fixed_dictionaries(
    {},
    optional={
        CONTENT_TYPE: STRING_PROPERTIES,
        CONTENT_ENCODING: STRING_PROPERTIES,
        HEADERS: TABLES,
        DELIVERY_MODE: OCTETS,
        PRIORITY: OCTETS,
        TIMESTAMP: unsigned(b"", "Q", 64),
    }
    | dict.fromkeys((*STRINGS, *LATE_STRINGS), STRING_PROPERTIES),
)
"""What `properties` takes."""

CONTENT_TYPES = ["application/json", "text/plain", "application/data", "application/x-unheard-of"]
ENCODINGS = ["utf-8", "UTF-8", "binary", "latin-1", "klingon"]
COMPRESSIONS = [b"application/x-gzip", b"gzip", b"application/x-bzip2", b"unheard-of"]

BODIES = st.one_of(
    st.just(b""),
    st.recursive(st.none() | st.integers() | WORDS, st.lists, max_leaves=5).map(
        lambda value: json.dumps(value).encode()
    ),
    TEXTS,
    st.binary(max_size=200),
    TEXTS.map(zlib.compress),
)


@st.composite
def contents(draw: st.DrawFn) -> tuple[list[bytes], bytes]:
    """Bodies in pieces, and properties that often are the usual ones."""
    values = draw(PROPERTIES)
    if draw(st.booleans()):
        values[CONTENT_TYPE] = short_string(draw(st.sampled_from(CONTENT_TYPES)))
        values[CONTENT_ENCODING] = short_string(draw(st.sampled_from(ENCODINGS)))
    if draw(st.integers(0, 4)) == 0:
        compression = draw(st.sampled_from(COMPRESSIONS))
        values[HEADERS] = table([(b"compression", b"S" + long_string(compression))])
    return pieces(draw, draw(BODIES)), properties(values)


def pieces(draw: st.DrawFn, data: bytes, most: int = 4) -> list[bytes]:
    """Cut at random places; the last piece has something, the others may be empty."""
    if not data:
        return []
    cuts = sorted(draw(st.lists(st.integers(0, len(data) - 1), max_size=most - 1)))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
