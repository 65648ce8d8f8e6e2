"""What becomes of messages that do not simply start."""

import logging
from collections.abc import Sequence
from typing import Any, Protocol

from celery_fair.brokers.mover import Mover, NotTakenError, queue_of
from celery_fair.brokers.redelivery import is_redelivered
from celery_fair.tasks import NonRepeatableTask
from celery_fair.worker.launch.burial import (
    LOST,
    MALFORMED,
    REJECTED,
    UNKNOWN,
    DeadLetters,
    described,
)
from celery_fair.worker.queues.feed import Feed

__all__ = ["GarbageWatch", "MessageCustody"]

logger = logging.getLogger(__name__)

_RETURNS = 3
"""As often a quorum queue may get a message back; a policy, which is not known here, may have set a
limit, and from RabbitMQ 4 on it is 20 by default."""


class GarbageWatch(Protocol):
    """Is told of what was in a queue and is no message."""

    def garbage(self, headers: dict[str, Any]) -> None:
        """It went to the dead letters, with such headers."""


class MessageCustody:
    """As `celery_fair.worker.queues.feed.Custody` says. One a connection.

    Arguments:
        tasks: the app's.
        mover: moves messages to where they belong.
        dead_letters: takes what must not start.
        watches: told of garbage.
    """

    def __init__(
        self,
        tasks: Any,
        mover: Mover,
        dead_letters: DeadLetters,
        watches: Sequence[GarbageWatch] = (),
    ) -> None:
        self._tasks = tasks
        self._mover = mover
        self._dead_letters = dead_letters
        self._watches = tuple(watches)

    def starts_once(self, message: Any) -> bool:
        """Whether a message's task is non-repeatable, as far as its headers tell."""
        return isinstance(self._task(message), NonRepeatableTask)

    def give_back(self, messages: Sequence[Any]) -> None:
        """Return messages that have not started to their queue, as if nobody had had them.

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
        except NotTakenError as exc:
            logger.debug("A message of %s is not moved to %s: %r", queue_of(message), queue, exc)
            return False
        return True

    def refuse(self, message: Any, exc: BaseException | None) -> None:
        """No task was started for a message, or the task has rejected it: a dead letter.

        Arguments:
            exc: what is wrong with it, if that is known.
        """
        if message.acknowledged:
            return
        if message.boarded_at is not None:
            self._dead_letters.bury(message, REJECTED)
        else:
            name = _name(message)
            # What was registered after the start is unknown to Celery, which says so by its name.
            unknown = not self._task(message) or (isinstance(exc, KeyError) and exc.args == (name,))
            reason = UNKNOWN if name and unknown else MALFORMED
            detail = "" if exc is None else repr(exc)
            self._dead_letters.bury(message, reason, detail, is_redelivered(message))

    def worker_lost(self, message: Any) -> None:
        """The process that ran a message's task has died."""
        self._dead_letters.bury(message, LOST)

    def garbage(self, feed: Feed, raw: bytes, reason: Exception) -> None:
        """This was in the queue, and is no message."""
        headers = self._dead_letters.bury_raw(feed.channel, feed.name, raw, repr(reason))
        for watch in self._watches:
            watch.garbage(headers)

    def _task(self, message: Any) -> Any:
        return self._tasks.get(_name(message))


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
