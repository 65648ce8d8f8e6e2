"""Sending messages to the dead letters, with a reason, and saying so."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from celery.utils.dispatch import Signal

from celery_fair.brokers.mover import Mover, RedisMover, queue_of
from celery_fair.brokers.redelivery import is_redelivered
from celery_fair.dead_letters.death import death_headers

__all__ = [
    "DUPLICATE",
    "LOST",
    "MALFORMED",
    "REDELIVERED",
    "REJECTED",
    "UNKNOWN",
    "DeadLetters",
    "described",
    "message_dead_lettered",
]

logger = logging.getLogger(__name__)

REDELIVERED, LOST, DUPLICATE = "redelivered", "worker-lost", "duplicate"
MALFORMED, UNKNOWN, REJECTED = "malformed", "unknown-task", "rejected"
_REASONS = {
    REDELIVERED: "it was delivered before and may have started",
    LOST: "the process that ran it has died",
    DUPLICATE: "its work was claimed by another message",
    MALFORMED: "no task can be made of it",
    UNKNOWN: "this worker knows no such task",
    REJECTED: "the task has rejected it",
}

_RETRY = 10.0
"""Seconds until a message that could not be moved is tried again."""


class DeadLetters:
    """What a worker buries, on one connection.

    Arguments:
        hostname: the worker's name.
        mover: the connection's.
        later: calls something in so many seconds; without, what cannot be moved is not tried again.
    """

    def __init__(
        self,
        hostname: str,
        mover: Mover,
        later: Callable[[float, Callable[[], object]], object] | None = None,
    ) -> None:
        self._hostname = hostname
        self._mover = mover
        self._later = later
        self._closed = False

    def close(self) -> None:
        """Bury nothing more: the connection is over, and the broker gives back what it was for."""
        self._closed = True

    def bury(
        self,
        message: Any,
        reason: str,
        detail: str = "",
        may_have_started: bool = True,
        work: str = "",
    ) -> None:
        """Move a message that must not start (again) to the dead letters, and say so.

        Where that fails, the message stays at the broker, unacknowledged, and is tried again as
        long as the connection lives; after that it is redelivered, and judged anew.
        """
        dead = self._closed or getattr(getattr(message, "feed", None), "dead", False)
        if message.acknowledged or dead:
            return
        queue = queue_of(message)
        may_have_started = may_have_started or is_redelivered(message)  # or a letter may be there
        headers = death_headers(
            message.delivery_info, queue, self._hostname, reason, detail, may_have_started, work
        )
        name, id_ = described(message)
        try:
            if not self._mover.bury(message, headers):
                logger.info("Task %s[%s] of queue %s was given to another worker", name, id_, queue)
                return
        except Exception as exc:  # noqa: BLE001 - whatever it is, the worker goes on
            logger.error(  # noqa: TRY400 - a broker's answer says it all
                "Task %s[%s] of queue %s is not started (%s) and could not be dead-lettered: %r."
                " It stays at the broker",
                name,
                id_,
                queue,
                _REASONS[reason],
                exc,
            )
            if self._later is not None:
                self._later(0.0, partial(_strand, message))  # this may be a task's thread
                self._later(
                    _RETRY, partial(self.bury, message, reason, detail, may_have_started, work)
                )
            return
        logger.warning(
            "Dead-lettered task %s[%s] of queue %s: %s", name, id_, queue, _REASONS[reason]
        )
        message_dead_lettered.send(
            sender=self._hostname, message=message, reason=reason, headers=headers
        )

    def bury_raw(self, channel: Any, queue: str, raw: bytes, detail: str) -> dict[str, Any]:
        """Do so with what is no message at all, and is held nowhere but here.

        Returns:
            What the dead letter says of its death.
        """
        headers = death_headers(None, queue, self._hostname, MALFORMED, detail, False)
        assert isinstance(self._mover, RedisMover)
        self._mover.bury_raw(channel, raw, headers)
        logger.error("Dead-lettered what is no message of queue %s: %s: %.200r", queue, detail, raw)
        return headers


def _strand(message: Any) -> None:
    feed = getattr(message, "feed", None)
    if feed is not None and not feed.dead and not message.acknowledged:
        feed.aside.strand(message)


def described(message: Any) -> tuple[Any, Any]:
    """Return a message's task and its id, as its headers have them, of whatever type."""
    headers = message.headers if isinstance(message.headers, dict) else {}
    return headers.get("task"), headers.get("id")


message_dead_lettered = Signal(
    name="message_dead_lettered", providing_args=["message", "reason", "headers"]
)
"""Sent when a message went to the dead letters; the sender is the worker's name."""
