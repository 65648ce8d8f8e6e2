"""Dead letters: where a message goes that must not start, and how it looks there.

All of an app's dead letters come into one queue, bound to an exchange of the same name. A dead
letter is the message as it was, with headers that say why, from where, when, and whether it may
have started.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kombu import Exchange, Queue

from celery_fair.headers import CLAIM

REDELIVERED, LOST, DUPLICATE = "redelivered", "worker-lost", "duplicate"
MALFORMED, UNKNOWN, REJECTED = "malformed", "unknown-task", "rejected"
REASONS = {
    REDELIVERED: "it was delivered before and may have started",
    LOST: "the process that ran it has died",
    DUPLICATE: "its work was claimed by another message",
    MALFORMED: "no task can be made of it",
    UNKNOWN: "this worker knows no such task",
    REJECTED: "the task has rejected it",
}

_SEPARATE = {
    "application_headers",
    "content_encoding",
    "content_type",
    "delivery_info",
    "delivery_tag",
    "priority",
    "user_id",
}
"""Properties that are given on their own, belong to a delivery rather than to the message, or which
the broker takes from their first publisher alone."""

_SHORT = 60  # characters of a property, of which AMQP takes 255 bytes
_LONGEST = 1000  # characters of a text that somebody else has made


def dead_letter_queue(name: str) -> Queue:
    """Return the queue of an app's dead letters, to be declared before the first.

    A quorum queue, which may be a virtual host's default, would count each look as a delivery, and
    drop what was looked at too often. RabbitMQ takes none and this for the same type.
    """
    return Queue(name, Exchange(name, "fanout"), queue_arguments={"x-queue-type": "classic"})


def death_headers(
    info: Mapping[str, Any] | None,
    queue: str,
    worker: str,
    reason: str,
    detail: str,
    may_have_started: bool,
    work: str = "",
) -> dict[str, Any]:
    """Return what a dead letter says of its death.

    Arguments:
        info: the message's delivery information.
        queue: where the message was.
        worker: who moves it.
        reason: one word for it.
        detail: more of it, such as the text of an error; or nothing.
        work: what names its work for a ledger, if there is one.
    """
    info = info or {}
    headers = {
        "x-fair-reason": reason,
        "x-fair-queue": queue,
        "x-fair-exchange": str(info.get("exchange") or ""),
        "x-fair-routing-key": str(info.get("routing_key") or ""),
        "x-fair-worker": worker,
        "x-fair-time": datetime.now(UTC).isoformat(),
        "x-fair-may-have-started": may_have_started,
    }
    if detail:
        headers["x-fair-detail"] = detail[:_LONGEST]
    if work:
        headers[CLAIM] = work
    return headers


def with_headers(headers: Any, more: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message's headers and `more`; of headers that are none, what they look like."""
    if headers is None or isinstance(headers, Mapping):
        return {**(headers or {}), **more}
    return {"x-fair-headers": repr(headers)[:_LONGEST], **more}


_MORE_KEYS = ("CC", "BCC")
"""Headers in which RabbitMQ looks for more queues to route a message to; it has been there."""


def properties_of(message: Any, headers: Mapping[str, Any], dead: bool) -> dict[str, Any]:
    """Return what ``channel.prepare_message`` takes to make the message anew, with more headers.

    Arguments:
        dead: whether it is to be a dead letter, which nothing deletes; else it expires as before,
            by the time from now on.
    """
    properties = {
        name: value for name, value in message.properties.items() if name not in _SEPARATE
    }
    if dead:
        properties.pop("expiration", None)
    new = with_headers(message.headers, headers)
    if not message.errors:  # it has been decompressed
        new.pop("compression", None)
    for name in _MORE_KEYS:
        new.pop(name, None)
    return {
        "priority": message.properties.get("priority"),
        "content_type": message.content_type,
        "content_encoding": message.content_encoding,
        "headers": new,
        "properties": properties | {"delivery_mode": 2},
    }


def described_properties(message: Any, headers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same for a message that cannot be published: what its headers look like."""
    return {
        "content_type": "application/octet-stream",
        "content_encoding": "binary",
        "headers": {"x-fair-headers": repr(message.headers)[:_LONGEST], **headers},
        "properties": {
            "message_id": ascii(message.properties.get("message_id") or "")[1:-1][:_SHORT],
            "delivery_mode": 2,
        },
    }
