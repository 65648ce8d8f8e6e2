"""What became of each message, by all that has been said of it."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kombu import Connection

from celery_fair.dead_letters.death import dead_letter_queue
from tests.brokers import Space
from tests.hostile.mark import marked
from tests.hostile.messages import FIRST, Hostile
from tests.records import Records

DEAD = "dead-letters"
REASONS = {"malformed", "unknown-task", "redelivered", "rejected", "duplicate"}
REFUSED = re.compile("(?:Refused a malformed message|Celery could not take note of) .*")
"""What a worker says of one that is no dead letter if it had been acknowledged."""
Outcomes = Mapping[int | None, Counter[str]]
"""By number; of what could not be told whose it is, under None."""


def outcomes(space: Space, queue: str, records: Records, log: str) -> tuple[Outcomes, list[str]]:
    """Return how often each was started, failed, was buried and so on, and what else is wrong.

    The worker has ended. What is left in the queue waits.
    """
    found: dict[int | None, Counter[str]] = defaultdict(Counter)
    wrong: list[str] = []
    for record in records.started.read():
        if record.seq >= FIRST or "hostile:" in record.id:
            number = marked(record.id)
            found[record.seq - FIRST if number is None else number]["started"] += 1
    for line in Path(f"{records.prefix}.said").read_text().splitlines():
        said = json.loads(line)
        found[said["number"]][said["kind"]] += 1
    for number in filter(None, map(marked, REFUSED.findall(log))):
        found[number]["refused"] += 1
    for letter in taken(space, DEAD):
        number = marked(letter)
        found[number]["buried"] += 1
        wrong += [f"dead letter of {number}: {what}" for what in amiss(letter[0], queue)]
    for left in taken(space, queue):
        found[marked(left)]["waits"] += 1
    return found, wrong


def amiss(headers: Any, queue: str) -> Iterator[str]:
    """What a dead letter should say, and does not."""
    if not isinstance(headers, dict):
        yield f"its headers are {headers!r:.100}"
        return
    reason = headers.get("x-fair-reason")
    if reason not in REASONS:
        yield f"its reason is {reason!r}"
    if headers.get("x-fair-queue") != queue:
        yield f"it is of queue {headers.get('x-fair-queue')!r}"
    if reason == "malformed" and not headers.get("x-fair-detail"):
        yield "it does not say what is malformed"


def taken(space: Space, queue: str) -> Iterator[tuple[Any, Any, Any]]:
    """Take all out of a queue: headers, properties and bodies, none of which need be text."""
    return _of_redis(space, queue) if space.kind == "redis" else _of_rabbitmq(space, queue)


def _of_redis(space: Space, queue: str) -> Iterator[tuple[Any, Any, Any]]:
    with Connection(space.url) as connection, connection.channel() as channel:
        names = [channel._q_for_pri(queue, step) for step in channel.priority_steps]
        for name in names:
            while (raw := channel.client.rpop(name)) is not None:
                yield _stored(raw)


def _stored(raw: bytes) -> tuple[Any, Any, Any]:
    try:
        stored = json.loads(raw)
        headers, properties, body = (stored.get(name) for name in ("headers", "properties", "body"))
    except Exception:  # noqa: BLE001 - it is garbage that nobody has looked at
        return None, None, raw
    try:
        body = b64decode(body)
    except Exception:  # noqa: BLE001 - so is this
        return headers, (properties, stored), body
    return headers, (properties, stored), body


def _of_rabbitmq(space: Space, queue: str) -> Iterator[tuple[Any, Any, Any]]:
    with Connection(space.url) as connection, connection.channel() as channel:
        if queue == DEAD:
            dead_letter_queue(DEAD)(channel).declare()
        while (message := channel.basic_get(queue, no_ack=True)) is not None:
            yield message.headers, message.properties, message.body


def broken(messages: Iterable[Hostile], found: Outcomes) -> Iterator[str]:
    """The laws that are broken, one a line."""
    for message in messages:
        was = found.get(message.number, Counter())
        if was["started"] > 1 or was["buried"] > 1:
            yield f"{message}: {dict(was)}: twice"
        if not was:
            yield f"{message}: gone without a word"
        if was["waits"] and not message.waits:
            yield f"{message}: {dict(was)}: left in its queue"
