"""Whatever a message contains, the worker lives.

Celery's own handler refuses what it recognises as malformed; what it does not foresee (a header of
another type, a body of another shape) ends a vanilla worker, stays queued, and ends the next one.
"""

import logging
from collections.abc import Callable
from typing import Any

__all__ = ["refuse", "shielded"]

logger = logging.getLogger(__name__)


def shielded(handler: Callable[[Any], object]) -> Callable[[Any], object]:
    """Return `handler` with every error turned into a refused message and a logged reason."""

    def handle(message: Any) -> None:
        try:
            if message.headers is not None and message.errors:  # these come of decoding those
                message._reraise_error()
            handler(message)
        except Exception as exc:  # noqa: BLE001 - a message may fail in any way; the worker must not
            refuse(message, exc)

    return handle


def refuse(message: Any, exc: Exception) -> None:
    """Log why no task is started for a message, and leave the rest to its feed."""
    logger.error(
        "Refused a malformed message from queue %s: %r (content type %r, headers %.500r, %s bytes)",
        message.feed.name,
        exc,
        message.content_type,
        message.headers,
        len(message.body or ""),
        exc_info=exc,
    )
    if not message.acknowledged:
        message.feed.refuse(message, exc)
