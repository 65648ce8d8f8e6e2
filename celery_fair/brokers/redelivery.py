"""Whether a message was handed out before, as far as can be told from it."""

from typing import Any

__all__ = ["is_redelivered"]


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
