"""A task message with holes for what differs between its copies."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple
from uuid import uuid4

from celery import Celery

# Stands for the id wherever the message carries it; of an id's length, so that
# it can be replaced in serialised bytes.
ID = "01234567-89ab-4cde-8f01-23456789abcd"


class Job(NamedTuple):
    queue: str
    id: str
    body: bytes


@dataclass(frozen=True)
class Template:
    headers: dict[str, Any]
    properties: dict[str, Any]
    body_end: bytes
    """The body after its first argument, which is the sequence number."""

    @classmethod
    def of(
        cls,
        task: str,
        args: Sequence[Any],
        properties: dict[str, Any],
        headers: Mapping[str, Any],
        options: dict[str, Any],
    ) -> Template:
        app = Celery("template", set_as_current=False)
        message = app.amqp.as_task_v2(ID, task, (0, *args), argsrepr="(...)", **options)
        body = json.dumps(message.body).encode()
        return cls(message.headers | headers, message.properties | properties, body[len(b"[[0") :])

    def jobs(self, counts: Mapping[str, int], first: int) -> Iterator[Job]:
        """One message of each queue in turn, until all have their count."""
        run = str(uuid4())[: -len("23456789abcd")]
        number = 0
        for turn in range(max(counts.values(), default=0)):
            body = b"[[%d" % (first + turn) + self.body_end
            for queue, count in counts.items():
                if turn < count:
                    yield Job(queue, f"{run}{number:012x}", body)
                    number += 1


def blocks(jobs: Iterator[Job], size: int) -> Iterator[list[Job]]:
    while block := list(islice(jobs, size)):
        yield block
