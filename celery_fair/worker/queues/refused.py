"""Queues that the broker refuses to let this worker consume, tried again until it does.

Another worker consumes the queue exclusively, or the broker's permissions forbid it. Whichever it
is, the other queues are consumed meanwhile, and it may be over without anybody's doing here.
"""

import logging
from collections.abc import Callable

__all__ = ["Refused"]

logger = logging.getLogger(__name__)

_RETRY = 5.0


class Refused:
    """Remembers who was refused, and tries again every five seconds.

    Arguments:
        call_later: calls a function after so many seconds, from the thread that owns the channels.
        consume: starts the queues that are not consumed yet; returns the names of all that are.
    """

    def __init__(
        self,
        call_later: Callable[[float, Callable[[], object]], object],
        consume: Callable[[], set[str]],
    ) -> None:
        self._call_later = call_later
        self._consume = consume
        self._queues: set[str] = set()
        self._due = False

    def add(self, queue: str, answer: Exception) -> None:
        """The broker's answer to an attempt to consume the queue was no."""
        if queue not in self._queues:
            self._queues.add(queue)
            logger.error(
                "Cannot consume queue %s: %s. Either another worker consumes it and one of the two"
                " does so exclusively: end that one, or let this one wait for it; or the broker's"
                " permissions forbid it. Trying again every %g s; other queues are not affected.",
                queue,
                answer,
                _RETRY,
            )
        if not self._due:
            self._due = True
            self._call_later(_RETRY, self._try_again)

    def _try_again(self) -> None:
        self._due = False
        for queue in self._queues & self._consume():
            self._queues.discard(queue)
            logger.warning("Queue %s is consumed now", queue)
