"""What becomes of messages that do not simply start: back they go, or to the dead letters.

A dead letter has a reason, and whoever listens to `message_dead_lettered` hears of it.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from celery.utils.dispatch import Signal

from celery_fair.brokers.mover import Mover, NotTakenError, RedisMover, StaysError, queue_of
from celery_fair.brokers.payload import is_redelivered
from celery_fair.dead_letters.death import (
    LOST,
    MALFORMED,
    REASONS,
    REJECTED,
    UNKNOWN,
    death_headers,
)
from celery_fair.tasks import NonRepeatableTask

logger = logging.getLogger(__name__)

_RETRY = 10.0
"""Seconds until a message that could not be moved is tried again."""

_RETURNS = 3
"""As often a quorum queue may get a message back; a policy, which is not known here, may have set a
limit, and from RabbitMQ 4 on it is 20 by default."""

message_dead_lettered = Signal(
    name="message_dead_lettered", providing_args=["message", "reason", "headers"]
)
"""Sent when a message went to the dead letters; the sender is the worker's name. What was in a
queue and is no message at all has None for it."""


def described(message: Any) -> tuple[Any, Any]:
    """Return a message's task and its id, as its headers have them, of whatever type."""
    headers = message.headers if isinstance(message.headers, dict) else {}
    return headers.get("task"), headers.get("id")


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
        message.feed.dispositions.refuse(message, exc)


class DeadLetters:
    """Sends messages to the dead letters, on one connection.

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
        """Move nothing more: the connection is over, and the broker gives back what it was for."""
        self._closed = True

    def dead_letter(
        self,
        message: Any,
        reason: str,
        detail: str = "",
        may_have_started: bool = True,
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
        work = getattr(message, "claimed", "")
        headers = death_headers(
            message.delivery_info, queue, self._hostname, reason, detail, may_have_started, work
        )
        name, id_ = described(message)
        try:
            if not self._mover.dead_letter(message, headers):
                logger.info("Task %s[%s] of queue %s was given to another worker", name, id_, queue)
                return
        except Exception as exc:  # noqa: BLE001 - whatever it is, the worker goes on
            logger.error(  # noqa: TRY400 - a broker's answer says it all
                "Task %s[%s] of queue %s is not started (%s) and could not be dead-lettered: %r."
                " It stays at the broker",
                name,
                id_,
                queue,
                REASONS[reason],
                exc,
            )
            if self._later is not None:
                again = partial(self.dead_letter, message, reason, detail, may_have_started)
                self._later(0.0, partial(_strand, message))  # this may be a task's thread
                self._later(_RETRY, again)
            return
        logger.warning(
            "Dead-lettered task %s[%s] of queue %s: %s", name, id_, queue, REASONS[reason]
        )
        self._tell(message, reason, headers)

    def dead_letter_raw(self, channel: Any, queue: str, raw: bytes, detail: str) -> None:
        """Do so with what is no message at all, and is held nowhere but here."""
        headers = death_headers(None, queue, self._hostname, MALFORMED, detail, False)
        assert isinstance(self._mover, RedisMover)
        self._mover.dead_letter_raw(channel, raw, headers)
        logger.error("Dead-lettered what is no message of queue %s: %s: %.200r", queue, detail, raw)
        self._tell(None, MALFORMED, headers)

    def _tell(self, message: Any, reason: str, headers: Any) -> None:
        message_dead_lettered.send(
            sender=self._hostname, message=message, reason=reason, headers=headers
        )


def _strand(message: Any) -> None:
    if not (message.feed.dead or message.acknowledged):
        message.feed.aside.strand(message)


class Dispositions:
    """What becomes of the messages of one connection that do not simply start.

    Arguments:
        tasks: the app's.
        mover: moves messages to where they belong.
        dead_letters: takes what must not start.
    """

    def __init__(self, tasks: Any, mover: Mover, dead_letters: DeadLetters) -> None:
        self._tasks = tasks
        self._mover = mover
        self._dead_letters = dead_letters

    def starts_once(self, message: Any) -> bool:
        """Whether a message's task is non-repeatable, as far as its headers tell.

        Such a message must not be started again once it counts as redelivered.
        """
        return isinstance(self._tasks.get(_name(message)), NonRepeatableTask)

    def give_back(self, messages: Sequence[Any]) -> None:
        """Return messages of one queue that have not started to it, as if nobody had had them.

        One that the broker does not take stays unacknowledged; if it still is when the connection
        ends, it comes back as redelivered.
        """
        if self._mover.in_place:
            self._mover.give_back_all(messages)
            return
        refusals = [exc for exc in map(self._give_back, messages) if exc is not None]
        if refusals:
            logger.error(
                "Queue %s: %d messages that have not started could not be given back: %s. While the"
                " connection lasts, that is tried again; then they count as redelivered, and"
                " non-repeatable ones become dead letters. Give the broker memory and disk, and the"
                " queue room",
                queue_of(messages[0]),
                len(refusals),
                refusals[0],
            )

    def _give_back(self, message: Any) -> NotTakenError | None:
        if not (self.starts_once(message) or _is_worn_out(message)):
            message.requeue()
            return None
        try:
            self._mover.give_back(message, {})
        except NotTakenError as exc:
            return exc
        return None

    def move(self, message: Any, queue: str) -> bool:
        """Move a message that has not started to another queue; False if that is not taken now."""
        try:
            self._mover.move(message, queue)
        except (NotTakenError, StaysError):
            return False
        return True

    def refuse(self, message: Any, exc: BaseException | None) -> None:
        """No task was started for a message, or the task has rejected it: a dead letter.

        Arguments:
            exc: what is wrong with it, if that is known.
        """
        if message.acknowledged:
            return
        if message.begun_at is not None:
            self._dead_letters.dead_letter(message, REJECTED)
            return
        name = _name(message)
        # What was registered after the start is unknown to Celery, which says so by its name.
        unknown = not self._tasks.get(name) or (isinstance(exc, KeyError) and exc.args == (name,))
        reason = UNKNOWN if name and unknown else MALFORMED
        detail = "" if exc is None else repr(exc)
        self._dead_letters.dead_letter(message, reason, detail, is_redelivered(message))

    def worker_lost(self, message: Any) -> None:
        """The process that ran a message's task has died."""
        self._dead_letters.dead_letter(message, LOST)

    def garbage(self, feed: Any, raw: bytes, reason: Exception) -> None:
        """This was in the queue, and is no message."""
        self._dead_letters.dead_letter_raw(feed.channel, feed.name, raw, repr(reason))


def _is_worn_out(message: Any) -> bool:
    """Whether a quorum queue might drop the message if it is returned once more; a copy is new."""
    headers = message.headers if isinstance(message.headers, dict) else {}
    returned = headers.get("x-delivery-count")
    if not isinstance(returned, int):
        return False
    arguments = getattr(message.feed.queue, "queue_arguments", None) or {}
    return bool(returned + 1 >= arguments.get("x-delivery-limit", _RETURNS))


def _name(message: Any) -> str:
    name, _ = described(message)
    return name if isinstance(name, str) else ""
