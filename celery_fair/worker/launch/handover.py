"""Handing a message to Celery, and hearing what Celery does with it."""

from collections.abc import Callable
from enum import Enum, auto
from typing import Any

from celery_fair.worker.bell import Bell
from celery_fair.worker.launch.shield import refuse

__all__ = ["Handover", "Outcome"]


class Outcome(Enum):
    """What became of a message whose turn it was."""

    STARTED = auto()
    """It has a slot, and is acknowledged if that is to be done first."""
    PUT_OFF = auto()
    """Celery keeps it: for its ETA, or for a rate limit."""
    DROPPED = auto()
    """It is over: revoked, expired, or it must not start again."""
    REFUSED = auto()
    """No task could be started of it, for an error."""


_DROPPED = Outcome.DROPPED


class Handover:
    """One a process: Celery's strategies remember whom to tell of their requests.

    Arguments:
        bell: rung when the pool has grown.
    """

    def __init__(self, bell: Bell) -> None:
        self._bell = bell
        self._offered: Any = None
        self._request: Any = None
        self._for_eta = False

    def offer(self, handle: Callable[[Any], object], message: Any) -> Any:
        """Return the request that Celery makes of a message, or the `Outcome` if it makes none.

        Whatever the message contains, the worker lives. Celery's own handler refuses what it
        recognises as malformed; what it does not foresee (a header of another type, a body of
        another shape) ends a vanilla worker, stays queued, and ends the next one.

        Arguments:
            handle: hands the message to Celery, or returns the request itself.
        """
        self._offered, self._request, self._for_eta = message, None, False
        outcome = _DROPPED
        try:
            if message.headers is not None and message.errors:  # these come of decoding those
                message._reraise_error()
            request = handle(message) or self._request
            if request is not None:
                return request
        except Exception as exc:  # noqa: BLE001 - a message may fail in any way; the worker must not
            refuse(message, exc)
            outcome = Outcome.REFUSED
        finally:
            self._offered = self._request = None
        if not message.acknowledged:
            message.feed.aside.put(message, eta=self._for_eta)
            return Outcome.PUT_OFF if outcome is _DROPPED else outcome
        return outcome

    def on_request(self, request: Any) -> None:
        """Celery's last word on a request: of the offered message, or of one that has come due."""
        message = request.message
        if message is self._offered:
            self._request = request
        else:
            message.feed.aside.due(message, request)

    def prefetch_raised(self) -> None:
        """Celery is about to keep the offered message in a timer; or else, the pool has grown."""
        if self._offered is None:
            self._bell.later()
        else:
            self._for_eta = True
