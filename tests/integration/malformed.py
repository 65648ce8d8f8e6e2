"""Messages that no task can be made of, by what is wrong with them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

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


MALFORMED: dict[str, Malformed] = {
    "no id": Malformed({"id": ...}),
    "an id that cannot be hashed": Malformed({"id": ["x"]}),
    "a task that cannot be hashed": Malformed({"task": ["noop"]}),
    "a body that is no triple": Malformed(body="[1, 2]"),
    "a body that is a number": Malformed(body="5"),
    "a body that is null": Malformed(body="null"),
    "an unknown compression": Malformed({"compression": "x-unheard-of"}),
    "broken compressed data": Malformed({"compression": "application/x-gzip"}),
    "a time limit that is a number": Malformed({"timelimit": 5}),
    "no headers": Malformed(bare=True),
    "no task": Malformed({"task": ...}),
    "an unknown task": Malformed({"task": "no.such.task"}),
    "a task that is null": Malformed({"task": None}),
    "a task that is a number": Malformed({"task": 7}),
    "a body that is not JSON": Malformed(body="{nothing"),
    "a body that is text": Malformed(body='"abc"'),
    "a body that is an object": Malformed(body="{}"),
    "arguments of another type": Malformed(body="[5, 6, 7]"),
    "too many arguments": Malformed(body="[[1, 2, 3, 4], {}, {}]"),
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
