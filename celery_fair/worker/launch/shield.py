"""A message of which no task can be started, for an error."""

import logging
from typing import Any

__all__ = ["refuse"]

logger = logging.getLogger(__name__)


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
        message.feed.custody.refuse(message, exc)
