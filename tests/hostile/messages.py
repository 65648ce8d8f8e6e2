"""Hostile messages: a good one, with one to three faults, in different parts of it."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from math import isfinite
from random import Random
from struct import pack
from typing import Any

from celery.utils.iso8601 import parse_iso8601

from tests.fast_path import wire
from tests.hostile.mark import mark
from tests.hostile.values import nested, noise, text, value

HUGE = 17 * 2**20
"""Bytes."""
FIRST = 7_000_000
"""What a message's number is added to for its task's argument, that no other value is like it."""
ORDINARY = ("noop", "plain")
TASKS = (*ORDINARY, "before", "after", "confirmed", "order")
OTHER_TASKS = (
    "no.such.task",
    "celery.map",
    "celery.chord",
    "celery.group",
    "celery.chord_unlock",
    "celery.backend_cleanup",
    "rejects",
    "retries",
)
_HEADERS = (
    "task id lang root_id parent_id group group_index argsrepr kwargsrepr origin eta expires "
    "retries timelimit shadow ignore_result replaced_task_nesting stamped_headers stamps "
    "compression meth redelivered priority reply_to correlation_id delivery_info properties "
    "headers args kwargs hostname is_eager called_directly callbacks errbacks chain chord "
    "errors x-death x-first-death-queue x-first-death-reason x-delivery-count x-delay delay "
    "x-fair-strict x-fair-published x-fair-ledger x-fair-partition-key x-fair-reason "
    "x-fair-queue x-fair-key x-fair-claim x-fair-time x-fair-may-have-started fair_token "
    "x-fair-headers _protected utc"
)
HEADERS = _HEADERS.split()
PROPERTIES = ("priority", "reply_to", "correlation_id", "type", "app_id", "delivery_mode")
CONTENT_TYPES = (
    "application/json",
    "application/x-python-serialize",
    "application/x-yaml",
    "application/x-msgpack",
    "application/data",
    "text/plain",
    "application/x-unheard-of",
    "",
    "APPLICATION/JSON",
    "application/json; charset=utf-8",
    "x" * 200,
)
ENCODINGS = ("utf-8", "UTF-8", "binary", "ascii", "utf-16", "undefined", "x-unheard-of", "idna", "")
COMPRESSIONS = ("application/x-gzip", "gzip", "bzip2", "lzma", "zstd", "application/zstd", "none")


@dataclass
class Hostile:
    """One of them.

    Attributes:
        faults: what was done to a good message.
        waits: whether it may be kept for a time that is to come.
        raw: what is pushed to a Redis list in its place.
        frames: the header's frame for RabbitMQ in its place, of which only the body is left.
    """

    number: int
    faults: list[str] = field(default_factory=list)
    headers: Any = field(default_factory=dict)
    body: bytes = b""
    content_type: str = "application/json"
    content_encoding: str = "utf-8"
    properties: dict[str, Any] = field(default_factory=dict)
    waits: bool = False
    raw: bytes | None = None
    frames: bytes | None = None

    def message(self) -> dict[str, Any]:
        """What `Producer.publish` takes."""
        return {
            "body": self.body,
            "headers": self.headers,
            "content_type": self.content_type,
            "content_encoding": self.content_encoding,
            "message_id": mark(self.number),
            **self.properties,
        }

    def __str__(self) -> str:
        return f"{self.number} ({'; '.join(self.faults)})"


def hostile(kind: str, seed: int, first: int = 0) -> Iterator[Hostile]:
    """All of a seed, for a kind of broker; the huge ones come soon."""
    for number in count(first):
        draw = Random(f"{seed}/{number}")
        message = good(number, draw)
        body, name = message.body, mark(number)
        ways = OF_REDIS if kind == "redis" else OF_AMQP
        if number % 1000 in _HUGE:
            _HUGE[number % 1000](message, draw)
        elif draw.random() < 0.35:
            draw.choice(ways)(message, draw)
        else:
            for fault in draw.sample(list(ANYWHERE), draw.choice((1, 1, 1, 2, 3))):
                ANYWHERE[fault](message, draw)
            if message.body != body and message.headers.get("id", name) != name:
                message.headers["id"] = name
        if kind == "rabbitmq":
            message.headers = publishable(message.headers)
            message.properties.pop("delivery_mode", None)
            if message.properties.get("reply_to") == "amq.rabbitmq.reply-to":
                del message.properties["reply_to"]  # it would want to be answered
        yield message


def publishable(found: Any) -> Any:
    """The like of it that RabbitMQ does not refuse at the publisher."""
    if isinstance(found, dict):
        return {key[:60]: publishable(each) for key, each in found.items()}
    if isinstance(found, list):
        return [publishable(each) for each in found]
    return 1.5 if isinstance(found, float) and not isfinite(found) else found


def good(number: int, draw: Random) -> Hostile:
    task = draw.choice(TASKS)
    args = [FIRST + number, *([f"order {number}"] if task == "order" else [])]
    name = mark(number)
    headers = {"lang": "py", "task": task, "id": name, "x-mark": name, "root_id": name}
    body = json.dumps([args, {}, {"callbacks": None, "errbacks": None, "chain": None}])
    return Hostile(number, headers=headers, body=body.encode())


# Anywhere ----------------------------------------------------------------------


def header(message: Hostile, draw: Random) -> None:
    """A header of any value, or none; an ETA that is a time may be one to come."""
    name, found = draw.choice(HEADERS), value(draw)
    if name == "task" and draw.random() < 0.3:
        found = draw.choice(OTHER_TASKS)
    if name == "timelimit" and draw.random() < 0.5:
        found = [value(draw, 0), value(draw, 0)]
    if name in {"eta", "expires"} and draw.random() < 0.3:
        found = draw.choice(("1970-01-01T00:00:00", "2990-01-01T00:00:00+00:00", "12:00"))
    message.faults.append(f"{name}={found!r:.60}")
    message.headers[name] = found
    if name == "eta":
        message.waits = is_time(found)
    if draw.random() < 0.1:
        message.headers.pop(name)


def is_time(found: Any) -> bool:
    try:
        return bool(parse_iso8601(found))
    except Exception:  # noqa: BLE001 - of any value
        return False


def more_headers(message: Hostile, draw: Random) -> None:
    message.faults.append("more headers")
    for number in range(draw.choice((1, 100, 1000))):
        message.headers[f"h{number} {text(draw):.20}"] = value(draw, 1) if number < 20 else number


def bare(message: Hostile, draw: Random) -> None:
    """None, and perhaps a body of the first protocol."""
    message.faults.append("bare")
    message.headers = {}
    if draw.random() < 0.7:
        first = {"task": draw.choice(TASKS), "id": mark(message.number)}
        first |= {"args": [FIRST + message.number], "kwargs": {}, "retries": 0}
        name = draw.choice([*first, "eta", "expires", "timelimit", "taskset", "utc", "errbacks"])
        first[name] = value(draw) if draw.random() < 0.8 else ...
        message.waits = name == "eta" and is_time(first[name])
        left = {key: found for key, found in first.items() if found is not ...}
        message.body = json.dumps(left, default=repr).encode()


def embedded(message: Hostile, draw: Random) -> None:
    """What is to come after the task."""
    name = draw.choice(("callbacks", "errbacks", "chain", "chord", "stamps", "x"))
    found = value(draw)
    message.faults.append(f"embedded {name}={found!r:.60}")
    args = [FIRST + message.number]
    message.body = json.dumps([args, {}, {name: found}], default=repr).encode()


def body(message: Hostile, draw: Random) -> None:
    number = FIRST + message.number
    bodies: dict[str, Callable[[], bytes]] = {
        "noise": lambda: noise(draw),
        "empty": lambda: b"",
        "half": lambda: message.body[: draw.randrange(len(message.body))],
        "twice": lambda: message.body * 2,
        "a value": lambda: json.dumps(value(draw), default=repr).encode(),
        "a value of three": lambda: json.dumps(
            [value(draw), value(draw), value(draw)], default=repr
        ).encode(),
        "arguments": lambda: json.dumps([[number, value(draw)], {}, {}], default=repr).encode(),
        "keywords": lambda: json.dumps(
            [[number], {text(draw): value(draw)}, {}], default=repr
        ).encode(),
        "brackets": lambda: b"[" * draw.choice((500, 5000, 100_000)),
        "nested": lambda: json.dumps([[number, nested(300)], {}, {}]).encode(),
        "digits": lambda: b"[[" + b"9" * 5000 + b"], {}, {}]",
        "NaN": lambda: b"[[NaN], {}, {}]",
        "a bit": lambda: _flipped(message.body, draw),
        "compressed": lambda: zlib.compress(message.body),
        "base64": lambda: base64.b64encode(message.body),
        "a pickle": lambda: b"cos\nsystem\n(S'true'\ntR.",
        "yaml": lambda: b"!!python/object/apply:os.system ['true']",
        "msgpack": lambda: b"\x93\x91\x00\x80\x80",
        "types": lambda: json.dumps(
            [[{"__type__": text(draw), "__value__": value(draw)}], {}, {}], default=repr
        ).encode(),
    }
    name = draw.choice(list(bodies))
    message.faults.append(f"body: {name}")
    message.body = bodies[name]()


def _flipped(data: bytes, draw: Random) -> bytes:
    if not data:
        return b"\0"
    place = draw.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << draw.randrange(8))]) + data[place + 1 :]


def content(message: Hostile, draw: Random) -> None:
    message.content_type, message.content_encoding = (
        draw.choice(CONTENT_TYPES),
        draw.choice(ENCODINGS),
    )
    message.faults.append(f"content {message.content_type:.40} {message.content_encoding}")


def compression(message: Hostile, draw: Random) -> None:
    name = draw.choice(COMPRESSIONS)
    message.faults.append(f"compression {name}")
    message.headers["compression"] = name
    if draw.random() < 0.5:
        message.body = zlib.compress(message.body)
    if draw.random() < 0.3:
        message.body = message.body[: len(message.body) // 2]


def message_property(message: Hostile, draw: Random) -> None:
    name = draw.choice(PROPERTIES)
    found: Any = text(draw).encode(errors="replace").decode()[:100]
    if name in {"priority", "delivery_mode"}:
        found = draw.choice((0, 1, 3, 9, 10, 100, 255))
    message.faults.append(f"property {name}={found!r:.40}")
    message.properties[name] = found


ANYWHERE = {
    "header": header,
    "header 2": header,
    "header 3": header,
    "more headers": more_headers,
    "bare": bare,
    "embedded": embedded,
    "body": body,
    "content": content,
    "compression": compression,
    "property": message_property,
}


# Of one broker -------------------------------------------------------------------


def stored(message: Hostile) -> dict[str, Any]:
    """A message as kombu puts it into a Redis list."""
    return {
        "body": base64.b64encode(message.body).decode(),
        "content-encoding": message.content_encoding,
        "content-type": message.content_type,
        "headers": message.headers,
        "properties": {
            "message_id": mark(message.number),
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": "a"},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": mark(message.number),
        },
    }


PARTS = (
    ("body",),
    ("content-encoding",),
    ("content-type",),
    ("headers",),
    ("properties",),
    ("properties", "delivery_info"),
    ("properties", "delivery_info", "routing_key"),
    ("properties", "delivery_info", "exchange"),
    ("properties", "priority"),
    ("properties", "body_encoding"),
    ("properties", "delivery_tag"),
    ("properties", "delivery_mode"),
    ("properties", "reply_to"),
    ("redelivered",),
    ("more",),
)


def _dumped(found: Any) -> bytes:
    return json.dumps(
        found, default=lambda odd: odd.hex() if isinstance(odd, bytes) else str(odd)
    ).encode()


def stored_part(message: Hostile, draw: Random) -> None:
    """A part of what kombu stores is another, or is not there."""
    whole = stored(message)
    *way, name = draw.choice(PARTS)
    place: Any = whole
    for step in way:
        place = place[step]
    if draw.random() < 0.3:
        place.pop(name, None)
        message.faults.append(f"stored without {name}")
    else:
        place[name] = value(draw)
        message.faults.append(f"stored {name}={place[name]!r:.60}")
    whole["x-mark"] = mark(message.number)
    message.raw = _dumped(whole)


def stored_text(message: Hostile, draw: Random) -> None:
    """What somebody pushes who does not know kombu."""
    good, name = _dumped(stored(message)), mark(message.number).encode()
    texts: dict[str, Callable[[], bytes]] = {
        "noise": lambda: name + noise(draw),
        "no UTF-8": lambda: b"\xff\xfe" + name,
        "a value": lambda: _dumped([value(draw), name.decode()]),
        "text": lambda: _dumped(name.decode() + text(draw)),
        "half": lambda: name + good[: draw.randrange(len(good))],
        "cut off": lambda: good[: draw.randrange(good.rfind(name) + len(name), len(good))],
        "a bit": lambda: name + _flipped(good, draw),
        "a bit of JSON": lambda: _but_for(good, name, draw),
        "twice": lambda: good * 2,
        "deep": lambda: good[:-1] + b', "deep": ' + b"[" * 1200 + b"]" * 1200 + b"}",
        "deeper": lambda: good[:-1] + b', "deep": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        "digits": lambda: good[:-1] + b', "digits": ' + b"9" * 5000 + b"}",
        "NaN": lambda: good[:-1] + b', "nan": NaN, "inf": -Infinity}',
        "a name twice": lambda: good[:-1] + b', "headers": {"x-mark": "%s"}}' % name,
        "a zero": lambda: good + b"\0",
        "UTF-16": lambda: good.decode().encode("utf-16") + name,
        "a byte order mark": lambda: b"\xef\xbb\xbf" + good,
        "a surrogate": lambda: good[:-1] + b', "odd": "\\ud800"}',
        "a header's surrogate": lambda: good.replace(b'"lang": "py"', b'"lang": "\\udfff"'),
        "raw UTF-8 that is none": lambda: good.replace(b'"lang": "py"', b'"lang": "\xff"'),
        "single quotes": lambda: good.replace(b'"', b"'"),
        "a pickle": lambda: b"cos\nsystem\n(S'" + name + b"'\ntR.",
    }
    which = draw.choice(list(texts))
    message.faults.append(f"stored: {which}")
    message.raw = texts[which]()


def _but_for(good: bytes, name: bytes, draw: Random) -> bytes:
    changed = _flipped(good, draw)
    return changed if name in changed else name + changed


LATIN = b"\xe9\xff"
PIECES: Mapping[str, Callable[[Random], bytes]] = {
    "text that is none": lambda draw: b"S" + wire.long_string(LATIN),
    "bytes": lambda draw: b"x" + wire.long_string(noise(draw)),
    "an octet": lambda draw: b"B\xff",
    "short": lambda draw: b"s" + pack(">h", -5),
    "unsigned": lambda draw: b"i" + pack(">I", 2**32 - 1),
    "long": lambda draw: b"l" + pack(">q", -1),
    "true by seven": lambda draw: b"t\7",
    "nothing": lambda draw: b"V",
    "a time": lambda draw: b"T" + pack(">Q", draw.choice((0, 2**31, 2**40))),
    "a float": lambda draw: b"f" + pack(">f", 1.5),
    "a decimal": lambda draw: b"D" + pack(">Bi", 200, -1),
    "a table": lambda draw: b"F" + wire.table([(LATIN, b"V")]),
    "a list": lambda draw: b"A" + wire.long_string(b"V" * 1000),
}


def raw_header(message: Hostile, draw: Random) -> None:
    """A content header that py-amqp would not write."""
    message.body = message.body.replace(
        b'{"callbacks"', b'{"x-mark": "%s", "callbacks"' % mark(message.number).encode()
    )
    headers = [(b"x-mark", _long(mark(message.number).encode())), (b"lang", _long(b"py"))]
    headers += [(b"task", _long(message.headers["task"].encode()))]
    headers += [(b"id", _long(mark(message.number).encode()))]
    name = draw.choice((b"task", b"id", b"lang", b"x", b"eta", b"retries", LATIN, b""))
    kind = draw.choice(list(PIECES))
    message.waits = (name, kind) == (b"eta", "a time")
    headers = [header for header in headers if header[0] != name]
    headers.append((name, PIECES[kind](draw)))
    properties = {
        wire.CONTENT_TYPE: wire.short_string("application/json"),
        wire.CONTENT_ENCODING: wire.short_string("utf-8"),
        wire.HEADERS: wire.table(headers),
    }
    message.faults.append(f"frame: {name!r} is {kind}")
    if draw.random() < 0.4:
        flag = draw.choice((wire.CONTENT_TYPE, wire.CONTENT_ENCODING, *wire.STRINGS[:2]))
        properties[flag] = wire.short_string(LATIN)
        message.faults.append(f"property {flag:#x} is no text")
    if draw.random() < 0.3:
        properties[wire.PRIORITY] = b"\xff"
        properties[wire.TIMESTAMP] = pack(">Q", draw.choice((0, 2**31, 2**62)))
        message.faults.append("priority and time are none")
    message.frames = wire.properties(properties)


def _long(data: bytes) -> bytes:
    return b"S" + wire.long_string(data)


OF_REDIS = (stored_part, stored_text)
OF_AMQP = (raw_header,)


# Huge ones -----------------------------------------------------------------------


def huge_garbage(message: Hostile, draw: Random) -> None:
    message.faults.append("17 MB of garbage")
    message.body = draw.randbytes(2**20) * 17


def huge_argument(message: Hostile, draw: Random) -> None:
    message.faults.append("17 MB of an argument")
    message.body = json.dumps([[FIRST + message.number, "x" * HUGE], {}, {}]).encode()


def huge_when_decompressed(message: Hostile, draw: Random) -> None:
    message.faults.append("17 MB of zeros, compressed")
    message.headers["compression"] = "application/x-gzip"
    message.body = zlib.compress(bytes(HUGE))


def huge_headers(message: Hostile, draw: Random) -> None:
    message.faults.append("100 kB of headers")
    message.headers |= {"argsrepr": "x" * 50_000, "kwargsrepr": "y" * 50_000}


_HUGE = {3: huge_garbage, 7: huge_argument, 11: huge_when_decompressed, 13: huge_headers}
