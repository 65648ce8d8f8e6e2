"""What becomes of messages that do not simply start."""

from collections.abc import Sequence
from typing import Any, Protocol

from celery_fair.tasks import NonRepeatableTask
from celery_fair.worker.launch.dead_letters import (
    LOST,
    MALFORMED,
    REJECTED,
    UNKNOWN,
    DeadLetters,
    described,
    is_redelivered,
)
from celery_fair.worker.launch.mover import Mover
from celery_fair.worker.queues.feed import Feed

__all__ = ["GarbageWatch", "MessageCustody"]


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

    def give_back(self, message: Any) -> None:
        """Return a message that has not started to its queue, as one that nobody was given."""
        if self._mover.in_place or self.starts_once(message):
            self._mover.give_back(message, {})
        else:
            message.requeue()

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
            reason = MALFORMED if self._task(message) or not _name(message) else UNKNOWN
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


def _name(message: Any) -> str:
    name, _ = described(message)
    return name if isinstance(name, str) else ""
