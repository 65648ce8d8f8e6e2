"""Messages that no task can be made of, by what is wrong with them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
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

    def publish(self, space: Space, queue: str) -> None:
        good = {"lang": "py", "task": "noop", "id": str(uuid4())}
        headers = {k: v for k, v in (good | dict(self.headers)).items() if v is not ...}
        publish_raw(
            space.url,
            queue,
            self.body,
            headers={} if self.bare else headers,
            content_type=self.content_type,
            content_encoding=self.content_encoding,
        )


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
    "an unknown task": Malformed({"task": "no.such.task"}),
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
    "time limits that are text": Malformed({"timelimit": ["soon", "later"]}, harmless=True),
    "three time limits": Malformed({"timelimit": [1, 2, 3]}),
    "stamps that are a number": Malformed({"stamped_headers": 5, "stamps": 5}),
    "protocol 1 with a task that cannot be hashed": Malformed(
        bare=True, body='{"task": ["noop"], "id": "1", "args": [0]}'
    ),
    "a mixture of protocols": Malformed(body='{"args": 5, "kwargs": 6}'),
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
    "a delivery tag of another type": stored(properties__delivery_tag=[1]),
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
