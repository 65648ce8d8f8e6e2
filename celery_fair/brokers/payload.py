"""A message as kombu's emulated brokers store it: a mapping with a body that is mostly base64."""

import base64
import json
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from celery_fair.dead_letters.letter import Letter
from celery_fair.dead_letters.letter_queue import ReplayError
from celery_fair.headers import PUBLISHED, time_of

_PARTS = {"body", "headers", "properties"}


def letter_of(payload: Any, handle: Any) -> Letter:
    """Return a stored message as a letter, whatever it is."""
    if not isinstance(payload, Mapping):
        return Letter({}, {}, _encoded(payload), handle, "it is no message")
    headers, properties = payload.get("headers"), payload.get("properties")
    rest = {name: value for name, value in payload.items() if name not in _PARTS}
    problem = None
    if not isinstance(properties, Mapping):
        problem = f"it has no properties, but {properties!r:.80}"
    elif not isinstance(headers, Mapping | None):
        problem = f"its headers are {headers!r:.80}"
    elif "body" not in payload:
        problem = "it has no body"
    known = properties if isinstance(properties, Mapping) else {}
    return Letter(
        headers=headers if isinstance(headers, Mapping) else {},
        properties={str(name).replace("-", "_"): each for name, each in rest.items()} | dict(known),
        body=_encoded(payload) if problem else _body(payload["body"], known.get("body_encoding")),
        handle=handle,
        problem=problem,
    )


def published(raw: Any) -> float | None:
    """Return when a stored message was published, in Unix time, if its publisher says so."""
    try:
        return time_of(json.loads(raw)["headers"][PUBLISHED])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def fresh_payload(payload: Mapping[str, Any], letter: Letter) -> dict[str, Any]:
    """Return the stored message as it was before it became a dead letter, with a tag of its own."""
    exchange, key = letter.origin
    properties = payload["properties"] | {
        "delivery_info": {"exchange": exchange, "routing_key": key},
        "delivery_tag": str(uuid4()),
    }
    fresh = {**payload, "headers": letter.replayed_headers(), "properties": properties}
    fresh.pop("redelivered", None)
    return fresh


def undelivered(payload: Any) -> Any:
    """Return a stored message without what kombu's SQS has noted there of its delivery."""
    if not isinstance(payload, Mapping) or not isinstance(payload.get("properties"), Mapping):
        return payload
    properties = payload["properties"]
    info = properties.get("delivery_info")
    if not isinstance(info, Mapping) or "sqs_message" not in info:
        return payload
    kept = {name: value for name, value in info.items() if not name.startswith("sqs_")}
    return {**payload, "properties": {**properties, "delivery_info": kept}}


def targets(channel: Any, letter: Letter, exchanges: Mapping[str, Any]) -> list[str]:
    """Return the queues that a letter is to be replayed to.

    Arguments:
        exchanges: those of the app: kombu knows an exchange's type only where it was declared.

    Raises:
        ReplayError: if there is none.
    """
    exchange, key = letter.origin
    if not exchange:
        return [key]
    if exchange in exchanges and exchange not in channel.state.exchanges:
        exchanges[exchange](channel).declare()
    try:
        table = channel.get_table(exchange)
    except KeyError:
        table = []
    queues = sorted(channel.typeof(exchange).lookup(table, exchange, key, None))
    if not queues:
        raise ReplayError(
            f"no queue is bound to exchange {exchange!r} for routing key {key!r}; declare one"
        )
    return queues


def _body(body: Any, encoding: Any) -> bytes:
    if encoding == "base64" and isinstance(body, str):
        try:
            return base64.b64decode(body, validate=True)
        except ValueError:
            pass
    return _encoded(body)


def _encoded(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    text = value if isinstance(value, str) else json.dumps(value, default=repr, skipkeys=True)
    return text.encode(errors="backslashreplace")


def is_redelivered(message: Any) -> bool:
    """Whether the broker, or kombu's emulation of one, says so.

    That on Redis puts the mark among the headers; the other emulations, beside them. SQS counts.
    """
    info, headers = message.delivery_info or {}, message.headers
    flagged = isinstance(headers, dict) and headers.get("redelivered")
    if info.get("redelivered") or flagged:
        return True
    stored = getattr(message, "_raw", None)
    return isinstance(stored, dict) and bool(stored.get("redelivered") or _received(info) > 1)


def _received(info: Any) -> int:
    """Return how often SQS has delivered a message."""
    try:
        return int(info["sqs_message"]["Attributes"]["ApproximateReceiveCount"])
    except (KeyError, TypeError, ValueError):  # another broker's
        return 1
