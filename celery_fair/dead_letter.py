"""Dead letters: where a message goes that must not start, and how it looks there.

All of an app's dead letters come into one queue, bound to an exchange of the same name. A dead
letter is the message as it was, with headers that say why, from where, when, and whether it may
have started.
"""

from collections.abc import Mapping
from typing import Any

from kombu import Exchange, Queue

__all__ = ["dead_letter_queue", "properties_of"]

_SEPARATE = {
    "application_headers",
    "content_encoding",
    "content_type",
    "delivery_info",
    "delivery_tag",
    "priority",
}
"""Properties that are given on their own, or belong to a delivery rather than to the message."""


def dead_letter_queue(exchange: str) -> Queue:
    """Return the queue of an app's dead letters, to be declared before the first."""
    return Queue(exchange, Exchange(exchange, type="fanout", durable=True), durable=True)


def properties_of(message: Any, headers: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``channel.prepare_message`` takes to make the message anew, with more headers."""
    properties = {
        name: value for name, value in message.properties.items() if name not in _SEPARATE
    }
    return {
        "priority": message.properties.get("priority"),
        "content_type": message.content_type,
        "content_encoding": message.content_encoding,
        "headers": {**message.headers, **headers},
        "properties": properties | {"delivery_mode": 2},
    }
