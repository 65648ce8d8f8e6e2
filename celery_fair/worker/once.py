"""At most once: what comes between the choice of a message and its start.

The acknowledgement is made here, on the live channel, and whatever it raises means: do not start.
Celery's own swallows errors and goes on, and under prefork leaves after the task has started.
"""

import logging
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from billiard.exceptions import WorkerLostError
from celery.worker.request import Request
from celery.worker.strategy import default

from celery_fair.core.disposition import Action, Delivery, Policy, disposition
from celery_fair.headers import STRICT
from celery_fair.settings import Settings
from celery_fair.tasks import NonRepeatableTask, policy_of
from celery_fair.worker.claims import Claims
from celery_fair.worker.dead_letters import (
    DUPLICATE,
    LOST,
    MALFORMED,
    REDELIVERED,
    REJECTED,
    UNKNOWN,
    DeadLetters,
    described,
    is_redelivered,
)
from celery_fair.worker.delivery import NotHeldError
from celery_fair.worker.mover import Mover, mover_for
from celery_fair.worker.source import Source

__all__ = ["Once", "OnceRequest", "strategy"]

logger = logging.getLogger(__name__)


class Once:
    """Lets requests pass that may start.

    Arguments:
        app: Celery's.
        source: returns the present connection's source.
        mover: returns the present connection's mover.
        dead_letters: takes what must not start.
        claims: knows what has started.
    """

    def __init__(
        self,
        app: Any,
        source: Callable[[], Source],
        mover: Callable[[], Mover],
        dead_letters: DeadLetters,
        claims: Claims,
    ) -> None:
        self._app = app
        self._source = source
        self._mover = mover
        self._dead_letters = dead_letters
        self._claims = claims

    def admits(self, request: Any) -> bool:
        """Say whether a request may start now; if not, see to what becomes of its message."""
        policy = policy_of(request.task)
        if policy is Policy.REPEATABLE:
            return True
        delivery, work, owner = self._claims.judge(request)
        action = disposition(delivery, policy)
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

    def starts_once(self, message: Any) -> bool:
        """Whether a message's task is non-repeatable, as far as its headers tell."""
        return isinstance(self._task(message), NonRepeatableTask)

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

    def lost(self, message: Any) -> None:
        """The process that ran a message's task has died."""
        self._dead_letters.bury(message, LOST)

    def _mark(self, request: Any) -> None:
        try:
            self._mover().give_back(request.message, {STRICT: True})
        except Exception as exc:  # noqa: BLE001 - whatever it is, it must not start
            _log_not_started(request, "given back", exc)

    def acknowledged(self, request: Any, work: str = "") -> bool:
        """Acknowledge a message whose task is about to start; if that fails, it must not.

        It is written when all that are about to start are; see `celery_fair.worker.boarding`.

        Arguments:
            work: what was claimed for it.
        """
        message = request.message
        message.claimed = work
        try:
            if policy_of(request.task) is Policy.REPEATABLE:
                message.ack()
            else:
                self._source().acknowledge(message)
            if getattr(request.task, "confirm", False):
                self._source().flush()
                self._source().confirm(message)
        except NotHeldError as exc:
            logger.warning("Not started: task %s[%s]: %s", request.name, request.id, exc)
            self._claims.give_up(work)
            return False
        except Exception as exc:  # noqa: BLE001 - any doubt about it: do not start
            self.not_acknowledged(request, exc)
            return False
        request.acknowledged = True
        return True

    def not_acknowledged(self, request: Any, exc: Exception) -> None:
        """Say that a task does not start; the broker delivers its message again."""
        _log_not_started(request, "acknowledged", exc)
        self._claims.give_up(request.message.claimed)

    def _task(self, message: Any) -> Any:
        return self._app.tasks.get(_name(message))


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


def _name(message: Any) -> str:
    name, _ = described(message)
    return name if isinstance(name, str) else ""


class OnceRequest(Request):
    """A request whose message goes to the dead letters if its process dies while it runs."""

    def on_failure(self, exc_info: Any, *args: Any, **kwargs: Any) -> Any:
        feed = getattr(self.message, "feed", None)
        error = getattr(exc_info.exception, "exc", exc_info.exception)  # billiard may wrap it
        lost = isinstance(error, WorkerLostError | SystemExit)
        if lost and feed is not None and not self.acknowledged and self.task.acks_late:
            feed.on_worker_lost(self.message)
            self.acknowledged = True
        return super().on_failure(exc_info, *args, **kwargs)


_movers: WeakKeyDictionary[Any, tuple[Any, Mover]] = WeakKeyDictionary()
"""Of workers without the bootstep: by the consumer, its connection and the mover for it."""


def _mover_of(consumer: Any) -> Mover:
    """Return one for all tasks of a consumer's present connection."""
    connection, mover = _movers.get(consumer, (None, None))
    if mover is None or connection is not consumer.connection:
        mover = mover_for(Settings.of(consumer.app).dead_letters, consumer.connection)
        _movers[consumer] = consumer.connection, mover
    return mover


def strategy(task: Any, app: Any, consumer: Any, **options: Any) -> Callable[..., object]:
    """Celery's strategy for non-repeatable tasks; on a worker without the bootstep, with the check.

    There it is all that can be done: Celery acknowledges with ``ack="before"`` when the task has
    started, or while it does.
    """
    handle: Callable[..., object] = default(task, app, consumer, **options)
    if hasattr(consumer, "fair"):
        return handle
    mover = _mover_of(consumer)
    dead_letters = DeadLetters(consumer.hostname, lambda: mover)

    def checked(message: Any, *args: Any, **kwargs: Any) -> None:
        if is_redelivered(message):
            dead_letters.bury(message, REDELIVERED)
        else:
            handle(message, *args, **kwargs)

    return checked
