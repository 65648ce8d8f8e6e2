"""Messages that no task can be made of, by what is wrong with them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from uuid import uuid4

import redis

from tests.brokers import Space
from tests.publishing import publish_raw

BODY = json.dumps([[0], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}])


@dataclass
class Malformed:
    """A good message but for what is given; a header that is `...` is left out."""

    headers: Mapping[str, Any] = field(default_factory=dict)
    body: str | bytes = BODY
    content_type: str = "application/json"
    content_encoding: str = "utf-8"
    bare: bool = False
    """No headers at all."""
    harmless: bool = False
    """A pool may run it after all."""
    fails: bool = False
    """A pool may find out, and then it is a task that fails."""
    reason: str = "malformed"
    """Why it is a dead letter."""

    def publish(self, space: Space, queue: str) -> None:
        publish_raw(space.url, queue, **self.message())

    def message(self) -> dict[str, Any]:
        """What `Producer.publish` takes."""
        good = {"lang": "py", "task": "noop", "id": str(uuid4())}
        headers = {k: v for k, v in (good | dict(self.headers)).items() if v is not ...}
        body = self.body.encode() if isinstance(self.body, str) else self.body
        return {
            "body": body,  # kombu would encode text by the message's own word
            "headers": {} if self.bare else headers,
            "content_type": self.content_type,
            "content_encoding": self.content_encoding,
        }


@dataclass
class Garbage:
    """What somebody pushed to a Redis list without knowing kombu's format."""

    text: str | bytes
    harmless: bool = False
    fails = False

    def publish(self, space: Space, queue: str) -> None:
        with redis.Redis.from_url(space.url) as client:
            client.lpush(queue, self.text)


def stored(harmless: bool = False, **changes: Any) -> Garbage:
    """A message in kombu's format but for what is given; what is `...` is left out."""
    properties = {
        "delivery_info": {"exchange": "", "routing_key": "a"},
        "priority": 0,
        "body_encoding": "base64",
        "delivery_tag": str(uuid4()),
    }
    good = {
        "body": "W1swXSwge30sIHt9XQ==",
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {"lang": "py", "task": "noop", "id": str(uuid4())},
        "properties": properties,
    }
    for path, value in changes.items():
        part, _, key = path.partition("__")
        if key:
            properties = good["properties"] = {**properties, key: value}
            if value is ...:
                del properties[key]
        else:
            good[part.replace("_", "-")] = value
    stored = {key: value for key, value in good.items() if value is not ...}
    return Garbage(json.dumps(stored), harmless)


DEADLY: dict[str, Malformed] = {
    "no id": Malformed({"id": ...}),
    "an id that cannot be hashed": Malformed({"id": ["x"]}),
    "a task that cannot be hashed": Malformed({"task": ["noop"]}),
    "a body that is no triple": Malformed(body="[1, 2]"),
    "a body that is a number": Malformed(body="5"),
    "a body that is null": Malformed(body="null"),
    "an unknown compression": Malformed({"compression": "x-unheard-of"}),
    "broken compressed data": Malformed({"compression": "application/x-gzip"}),
    "a time limit that is a number": Malformed({"timelimit": 5}),
}
"""Those that end a worker of Celery's, stay queued, and end the next one."""

MALFORMED: dict[str, Malformed] = DEADLY | {
    "no headers": Malformed(bare=True),
    "no task": Malformed({"task": ...}),
    "an unknown task": Malformed({"task": "no.such.task"}, reason="unknown-task"),
    "a task that is null": Malformed({"task": None}),
    "a task that is a number": Malformed({"task": 7}),
    "a body that is not JSON": Malformed(body="{nothing"),
    "a body that is text": Malformed(body='"abc"', fails=True),
    "a body that is an object": Malformed(body="{}"),
    "arguments of another type": Malformed(body="[5, 6, 7]", fails=True),
    "too many arguments": Malformed(body="[[1, 2, 3, 4], {}, {}]", fails=True),
    "an empty body": Malformed(body=b""),
    "a body in another encoding": Malformed(body=b'[["\xff\xfe"], {}, {}]'),
    "an unknown content type": Malformed(content_type="application/x-unheard-of"),
    "pickled data": Malformed(
        content_type="application/x-python-serialize", body=b"cos\nsystem\n."
    ),
    "yaml": Malformed(content_type="application/x-yaml", body="[[0], {}, {}]"),
    "an ETA that is no time": Malformed({"eta": "tomorrow"}),
    "an ETA that is a number": Malformed({"eta": 5}),
    "an expiry that is no time": Malformed({"expires": "never"}),
    "an expiry that is a list": Malformed({"expires": ["never"]}),
    "time limits that are text": Malformed({"timelimit": ["soon", "later"]}),
    "three time limits": Malformed({"timelimit": [1, 2, 3]}),
    "stamps that are a number": Malformed({"stamped_headers": 5, "stamps": 5}),
    "protocol 1 with a task that cannot be hashed": Malformed(
        bare=True, body='{"task": ["noop"], "id": "1", "args": [0]}'
    ),
    "a mixture of protocols": Malformed(body='{"args": 5, "kwargs": 6}'),
}

MALFORMED |= {
    "an id that is an object": Malformed({"id": {"a": 1}}),
    "a task that is an object": Malformed({"task": {"noop": 1}}),
    "a task that is true": Malformed({"task": True}),
    "a task that is empty": Malformed({"task": ""}),
    "a task of bytes": Malformed({"task": b"\xff\xfe"}),
    "a task that is a decimal": Malformed({"task": Decimal("1.5")}),
    "a shadow that is a list": Malformed({"shadow": ["x"]}),
    "an ETA that is a list": Malformed({"eta": ["2030-01-01"]}),
    "an ETA that is an object": Malformed({"eta": {"a": 1}}),
    "an ETA that is true": Malformed({"eta": True}),
    "an ETA beyond all years": Malformed({"eta": "99999-01-01T00:00:00"}),
    "an ETA in month 13": Malformed({"eta": "2030-13-01T00:00:00"}),
    "an ETA with an unknown zone": Malformed({"eta": "2030-01-01T00:00:00+99:99"}),
    "an ETA of bytes": Malformed({"eta": b"\xff"}),
    "an expiry that is an object": Malformed({"expires": {"a": 1}}),
    "an expiry that is true": Malformed({"expires": True}),
    "an expiry beyond all years": Malformed({"expires": "99999-01-01T00:00:00"}),
    "an expiry that is a huge number": Malformed({"expires": 2**62}),
    "an expiry that is a decimal": Malformed({"expires": Decimal("1.5")}),
    "one time limit": Malformed({"timelimit": [5]}),
    "time limits that are an object": Malformed({"timelimit": {"a": 1, "b": 2}}),
    "time limits that are two letters": Malformed({"timelimit": "ab"}),
    "time limits that are lists": Malformed({"timelimit": [[1], [2]]}),
    "a time limit that is true": Malformed({"timelimit": True}),
    "stamped headers that are lists": Malformed({"stamped_headers": [["a"]], "stamps": {"a": 1}}),
    "a compression that is a number": Malformed({"compression": 5}),
    "a compression that is a list": Malformed({"compression": ["gzip"]}),
    "a compression that is true": Malformed({"compression": True}),
    "broken bzip2": Malformed({"compression": "application/x-bz2"}),
    "broken lzma": Malformed({"compression": "application/x-lzma"}),
    "broken zstd": Malformed({"compression": "application/zstd"}),
    "half of compressed data": Malformed(
        {"compression": "application/x-gzip"}, body=zlib.compress(BODY.encode() * 50)[:40]
    ),
    "data compressed twice": Malformed(
        {"compression": "application/x-gzip"}, body=zlib.compress(zlib.compress(BODY.encode()))
    ),
    "nothing, compressed": Malformed({"compression": "application/x-gzip"}, body=b""),
    "an empty content type": Malformed(content_type=""),
    "text": Malformed(content_type="text/plain"),
    "raw data": Malformed(content_type="application/data"),
    "msgpack": Malformed(content_type="application/x-msgpack", body=b"\x93\x91\x00\x80\x80"),
    "half of msgpack": Malformed(content_type="application/x-msgpack", body=b"\x93\x91"),
    "utf-16 that is not": Malformed(content_encoding="utf-16", body=b"\x00\xd8\x00"),
    "a body of nothing but space": Malformed(body="   "),
    "a body that is true": Malformed(body="true"),
    "a body that is not a number": Malformed(body="NaN"),
    "an empty list": Malformed(body="[]"),
    "a body of one": Malformed(body="[[0]]"),
    "a body of four": Malformed(body="[[0], {}, {}, {}]"),
    "half a body": Malformed(body=BODY[:20]),
    "two bodies": Malformed(body=BODY + BODY),
    "a byte order mark": Malformed(body=b"\xef\xbb\xbf" + BODY.encode()),
    "brackets beyond all measure": Malformed(body="[" * 100_000),
    "brackets beyond all measure, closed": Malformed(body="[" * 100_000 + "]" * 100_000),
    "digits beyond all measure": Malformed(body="[[%s], {}, {}]" % ("9" * 5000)),
    "half a megabyte of garbage": Malformed(body=b"\x80" * 500_000),
    "zero bytes": Malformed(body=b"\0" * 100),
    "an unknown kind of value": Malformed(
        body='[[{"__type__": "uuid", "__value__": "x"}], {}, {}]'
    ),
    "a time that is none": Malformed(body='[[{"__type__": "datetime", "__value__": "x"}], {}, {}]'),
    "bytes that are none": Malformed(body='[[{"__type__": "bytes", "__value__": 5}], {}, {}]'),
    "a type unheard of": Malformed(body='[[{"__type__": "unheard-of", "__value__": 5}], {}, {}]'),
    "a type that is a list": Malformed(body='[[{"__type__": [1], "__value__": 5}], {}, {}]'),
    "protocol 1 with an id that cannot be hashed": Malformed(
        bare=True, body='{"task": "noop", "id": [1], "args": [0]}'
    ),
    "protocol 1 with keyword arguments of another type": Malformed(
        bare=True, body='{"task": "noop", "id": "1", "args": [0], "kwargs": 5}'
    ),
    "protocol 1 with an ETA that is no time": Malformed(
        bare=True, body='{"task": "noop", "id": "1", "args": [0], "eta": "x"}'
    ),
    "protocol 1 with an expiry that is no time": Malformed(
        bare=True, body='{"task": "noop", "id": "1", "args": [0], "expires": "x"}'
    ),
    "protocol 1 with a time limit that is a number": Malformed(
        bare=True, body='{"task": "noop", "id": "1", "args": [0], "timelimit": 5}'
    ),
    "protocol 1 of an unknown task": Malformed(
        bare=True, body='{"task": "no.such", "id": "1", "args": [0]}'
    ),
    "protocol 1 without a task": Malformed(bare=True, body='{"id": "1", "args": [0]}'),
    "protocol 1 with a task that is null": Malformed(
        bare=True, body='{"task": null, "id": "1", "args": [0]}'
    ),
    "a thousand headers": Malformed({f"h{i}": i for i in range(1000)} | {"id": ...}),
    "a task once with a body that is no triple": Malformed({"task": "before"}, body="[1,2]"),
    "a task once with options that are a number": Malformed(
        {"task": "before"}, body="[[0], {}, 5]"
    ),
    "a task once with no id": Malformed({"task": "after", "id": ...}),
    "a task with a zero byte": Malformed({"task": "noop\0"}, reason="unknown-task"),
    "a task with a name of 100 kB": Malformed({"task": "n" * 100_000}, reason="unknown-task"),
    "text that its encoding does not encode": Malformed(
        {"task": "no.such.task"}, body="x" * 100, content_encoding="idna", reason="unknown-task"
    ),
    "headers that fill a frame": Malformed(
        {"task": "no.such.task", "more": "x" * 130_700}, reason="unknown-task"
    ),
    "redelivered, claimed by the publisher": Malformed(
        {"task": "before", "redelivered": True}, reason="redelivered"
    ),
    "redelivered that is a list": Malformed(
        {"task": "before", "redelivered": [1]}, reason="redelivered"
    ),
    "an id that is null": Malformed({"id": None}, harmless=True),
    "an id of half a megabyte": Malformed({"id": "x" * 100_000}, harmless=True),
    "retries that are text": Malformed({"retries": "many"}, harmless=True),
    "a root id that is a list": Malformed({"root_id": ["x"]}, harmless=True),
    "a group that is a list": Malformed({"group": ["x"]}, harmless=True),
    "an unknown encoding": Malformed(content_encoding="x-unheard-of", harmless=True),
    "an encoding that always fails": Malformed(content_encoding="undefined", harmless=True),
    "options that are a number": Malformed(body="[[0], {}, 5]", harmless=True),
    "callbacks that are a number": Malformed(body='[[0], {}, {"callbacks": 5}]', harmless=True),
    "a chain that is text": Malformed(body='[[0], {}, {"chain": "x"}]', harmless=True),
    "keyword arguments that are a list": Malformed(body="[[0], [1], {}]", harmless=True),
    "arguments that are null": Malformed(body="[null, {}, {}]", harmless=True),
    "protocol 1 with arguments of another type": Malformed(
        bare=True, body='{"task": "noop", "id": "1", "args": 5}', harmless=True
    ),
    "headers 100 deep": Malformed(
        {"deep": json.loads('{"a":' * 90 + "1" + "}" * 90)}, harmless=True
    ),
    "strict that is a list": Malformed({"task": "before", "x-fair-strict": [1]}, harmless=True),
}

GARBAGE: dict[str, Garbage] = {
    "no JSON": Garbage(b"garbage"),
    "no text": Garbage(b"\x00\xff\xfe"),
    "nothing": Garbage(b""),
    "a list": Garbage("[]"),
    "a string": Garbage('"text"'),
    "null": Garbage("null"),
    "an empty object": Garbage("{}"),
    "no properties": stored(properties=...),
    "properties that are null": stored(properties=None),
    "no delivery tag": stored(properties__delivery_tag=...),
    "a delivery tag of another type": stored(properties__delivery_tag=[1], harmless=True),
    "no delivery info": stored(properties__delivery_info=..., harmless=True),
    "delivery info of another type": stored(properties__delivery_info="a"),
    "no body": stored(body=...),
    "a body that is null": stored(body=None),
    "a body that is no base64": stored(body="!"),
    "an unknown body encoding": stored(properties__body_encoding="rot13"),
    "no headers": stored(headers=...),
    "headers that are null": stored(headers=None),
    "headers that are a list": stored(headers=["task"]),
    "headers that are a number": stored(headers=5),
    "no content type": stored(content_type=...),
    "a content type of another type": stored(content_type=5),
}
"""What may be in a Redis list besides, where no broker checks a message's form."""
