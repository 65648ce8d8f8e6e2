"""At most once: what comes between the choice of a message and its start.

The acknowledgement is made here, on the live channel, and whatever it raises means: do not start.
Celery's own swallows errors and goes on, and under prefork leaves after the task has started.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from amqp import RecoverableConnectionError

from celery_fair.brokers.mover import Mover
from celery_fair.brokers.redis import NotHeldError
from celery_fair.core.disposition import Action, Delivery, Policy, disposition
from celery_fair.headers import STRICT
from celery_fair.tasks import policy_of
from celery_fair.worker.launch.burial import DUPLICATE, REDELIVERED, DeadLetters
from celery_fair.worker.launch.claims import Claims

__all__ = ["Admission", "Receipts", "StartLog"]

logger = logging.getLogger(__name__)


class Receipts(Protocol):
    """The broker's connection, as far as acknowledgements of what must start once go."""

    def acknowledge(self, message: Any) -> None:
        """Acknowledge a message whose task may start only if it is still held here."""

    def flush(self) -> None:
        """Send what was kept to be sent together."""

    def confirm(self, message: Any) -> None:
        """Wait until the broker has seen the message's acknowledgement."""


class StartLog(Protocol):
    """Where it must be written that a task may start, before it does."""

    def admitted(self, request: Any) -> bool:
        """Write so; False if that cannot be done now."""


_HELD = 100
"""Messages of a queue that wait for the log and let others pass; with more of them it stands."""

_RETRY = 5.0
"""Seconds until the log is tried again."""


class Admission:
    """Lets requests pass that may start. One a connection.

    Arguments:
        receipts: acknowledges.
        mover: gives back what is to be judged by another worker.
        dead_letters: takes what must not start.
        claims: knows what has started.
        logs: in which starts must be written down; what cannot be waits here, unacknowledged.
        later: calls something in so many seconds.
    """

    def __init__(
        self,
        receipts: Receipts,
        mover: Mover,
        dead_letters: DeadLetters,
        claims: Claims,
        logs: Sequence[StartLog] = (),
        later: Callable[[float, Callable[[], object]], object] = lambda seconds, call: None,
    ) -> None:
        self._receipts = receipts
        self._mover = mover
        self._dead_letters = dead_letters
        self._claims = claims
        self._logs = tuple(logs)
        self._later = later

    def admits(self, request: Any) -> bool:
        """Say whether a request may start now; if not, see to what becomes of its message."""
        policy = policy_of(request.task)
        if policy is Policy.REPEATABLE:
            return True
        delivery, work, owner = self._claims.judge(request)
        action = disposition(delivery, policy)
        starts = action is Action.RUN or action is Action.ACKNOWLEDGE_THEN_RUN
        if starts and not all(log.admitted(request) for log in self._logs):
            self._claims.give_up(work)
            self._put_off(request)
            return False
        if action is Action.RUN:
            return True
        if action is Action.ACKNOWLEDGE_THEN_RUN:
            return self.acknowledged(request, work)
        if action is Action.MARK:
            self._mark(request)
        else:
            twice = delivery is Delivery.CLAIMED and owner != request.id
            self._dead_letters.bury(request.message, DUPLICATE if twice else REDELIVERED, work=work)
            request.send_event("task-rejected", requeue=False)
        return False

    def _put_off(self, request: Any) -> None:
        """Keep a message, unacknowledged, as one with an ETA is: others pass it.

        If the worker stops, or the log cannot be written for long, it goes back to its queue.
        """
        message = request.message
        message.feed.aside.put(message, eta=message.feed.room.parked < _HELD)
        self._later(_RETRY, partial(_come_due, request))

    def _mark(self, request: Any) -> None:
        try:
            self._mover.give_back(request.message, {STRICT: True})
        except Exception as exc:  # noqa: BLE001 - whatever it is, it must not start
            _log_not_started(request, "given back", exc)

    def acknowledged(self, request: Any, work: str = "") -> bool:
        """Acknowledge a message before its task starts, once; if that fails, it must not start.

        It is written when all that are about to start are; see `boarding`.

        Arguments:
            work: what was claimed for it.
        """
        message = request.message
        message.claim(work)
        try:
            self._receipts.acknowledge(message)
            if request.task.confirm:
                self._receipts.flush()
                self._receipts.confirm(message)
        except NotHeldError as exc:
            logger.warning("Not started: task %s[%s]: %s", request.name, request.id, exc)
            self._claims.give_up(work)
            return False
        except Exception as exc:  # noqa: BLE001 - any doubt about it: do not start
            self.not_acknowledged(request, exc)
            return False
        return _acknowledged(request)

    def acknowledged_early(self, request: Any) -> bool:
        """Acknowledge a message whose task may start twice; say whether it is to start.

        In doubt it is: the broker may have forgotten it, and nobody else would start it.
        """
        try:
            request.message.ack()
        except RecoverableConnectionError as exc:  # py-amqp has written nothing
            self.not_acknowledged(request, exc)
            return False
        except Exception as exc:  # noqa: BLE001 - whatever it is, the task can be started
            logger.warning(
                "Task %s[%s] of queue %s starts, but may start again: its acknowledgement may not"
                " have arrived: %r",
                request.name,
                request.id,
                request.message.feed.name,
                exc,
            )
            return True  # Celery acknowledges it once more
        return _acknowledged(request)

    def not_acknowledged(self, request: Any, exc: Exception) -> None:
        """Say that a task does not start; the broker delivers its message again."""
        _log_not_started(request, "acknowledged", exc)
        self._claims.give_up(request.message.claimed)


def _come_due(request: Any) -> None:
    message = request.message
    if not (message.feed.dead or message.acknowledged):
        message.feed.aside.due(message, request)


def _log_not_started(request: Any, what: str, exc: Exception) -> None:
    logger.error(
        "Not started: task %s[%s] of queue %s could not be %s. The broker delivers it again when"
        " the connection is closed",
        request.name,
        request.id,
        request.message.feed.name,
        what,
        exc_info=exc,
    )


def _acknowledged(request: Any) -> bool:
    """Have Celery not acknowledge it once more."""
    request.acknowledged = True
    return True
