"""At most once: what comes between the choice of a message and its start.

The acknowledgement is made here, on the live channel, and whatever it raises means: do not start.
Celery's own swallows errors and goes on, and under prefork leaves after the task has started.
"""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from billiard.exceptions import WorkerLostError
from celery.utils.dispatch import Signal
from celery.worker import state
from celery.worker.request import Request

from celery_fair.core.disposition import Action, Policy, disposition
from celery_fair.tasks import NonRepeatableTask, policy_of
from celery_fair.worker.source import Source

__all__ = ["Once", "OnceRequest", "message_dead_lettered"]

logger = logging.getLogger(__name__)

REDELIVERED, LOST = "redelivered", "worker-lost"
_REASONS = {
    REDELIVERED: "it was delivered before and may have started",
    LOST: "the process that ran it has died",
}


class Once:
    """Lets requests pass that may start.

    Arguments:
        app: Celery's.
        hostname: the worker's name.
        source: returns the present connection's source.
    """

    def __init__(self, app: Any, hostname: str, source: Callable[[], Source]) -> None:
        self._app = app
        self._hostname = hostname
        self._source = source

    def admits(self, request: Any) -> bool:
        """Say whether a request may start now; if not, see to what becomes of its message."""
        policy = policy_of(request.task)
        if policy is Policy.REPEATABLE:
            return True
        action = disposition(is_redelivered(request.message), policy)
        if action is Action.RUN:
            return True
        acknowledge = action is Action.ACKNOWLEDGE_THEN_RUN
        try:
            if acknowledge:
                self._acknowledge(request)
                return True
            self.bury(request.message, REDELIVERED)
            request.send_event("task-rejected", requeue=False)
        except Exception:  # any doubt about the acknowledgement or the move: do not start
            logger.exception(
                "Not started: task %s[%s] of queue %s could not be %s. The broker delivers it again"
                " when the connection is closed",
                request.name,
                request.id,
                request.message.feed.name,
                "acknowledged" if acknowledge else "dead-lettered",
            )
        state.task_ready(request)
        return False

    def starts_once(self, message: Any) -> bool:
        """Whether a message's task is non-repeatable, as far as its headers tell."""
        name = (message.headers or {}).get("task")
        task = self._app.tasks.get(name) if isinstance(name, str) else None
        return isinstance(task, NonRepeatableTask)

    def _acknowledge(self, request: Any) -> None:
        request.message.ack()
        self._source().flush()
        if request.task.confirm:
            self._source().confirm(request.message)
        request.acknowledged = True

    def bury(self, message: Any, reason: str) -> None:
        """Move a message that may have started to the dead letters, and say so."""
        info = message.delivery_info or {}
        headers = {
            "x-fair-reason": reason,
            "x-fair-queue": message.feed.name,
            "x-fair-exchange": info.get("exchange") or "",
            "x-fair-routing-key": info.get("routing_key") or "",
            "x-fair-worker": self._hostname,
            "x-fair-time": datetime.now(UTC).isoformat(),
            "x-fair-may-have-started": True,
        }
        self._source().bury(message, headers)
        logger.warning(
            "Dead-lettered task %s[%s] of queue %s: %s",
            message.headers.get("task"),
            message.headers.get("id"),
            message.feed.name,
            _REASONS[reason],
        )
        message_dead_lettered.send(
            sender=self._hostname, message=message, reason=reason, headers=headers
        )


class OnceRequest(Request):
    """A request whose message goes to the dead letters if its process dies while it runs."""

    def on_failure(self, exc_info: Any, *args: Any, **kwargs: Any) -> Any:
        feed = getattr(self.message, "feed", None)
        error = getattr(exc_info.exception, "exc", exc_info.exception)  # billiard may wrap it
        lost = isinstance(error, WorkerLostError | SystemExit)
        if lost and feed is not None and not self.acknowledged and self.task.acks_late:
            feed.bury(self.message, LOST)
            self.acknowledged = True
        return super().on_failure(exc_info, *args, **kwargs)


def is_redelivered(message: Any) -> bool:
    """Whether the broker, or kombu's emulation of one, says so."""
    info, headers = message.delivery_info or {}, message.headers or {}
    return bool(info.get("redelivered") or headers.get("redelivered"))


message_dead_lettered = Signal(
    name="message_dead_lettered", providing_args=["message", "reason", "headers"]
)
"""Sent when a message went to the dead letters; the sender is the worker's name."""
