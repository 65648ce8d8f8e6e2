"""What Celery is told of non-repeatable tasks: their request, and their strategy."""

import logging
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from billiard.exceptions import WorkerLostError
from celery.worker.request import Request
from celery.worker.strategy import default

from celery_fair.brokers.broker import broker_of
from celery_fair.brokers.mover import Mover
from celery_fair.brokers.payload import is_redelivered
from celery_fair.headers import STRICT
from celery_fair.settings import Settings
from celery_fair.worker.launch.admission import may_be_claimed_elsewhere
from celery_fair.worker.letters import (
    REDELIVERED,
    DeadLetters,
    described,
)

__all__ = ["OnceRequest", "strategy"]

logger = logging.getLogger(__name__)


class OnceRequest(Request):
    """A request whose message goes to the dead letters if its process dies while it runs."""

    def on_failure(self, exc_info: Any, *args: Any, **kwargs: Any) -> Any:
        feed = getattr(self.message, "feed", None)
        error = getattr(exc_info.exception, "exc", exc_info.exception)  # billiard may wrap it
        lost = isinstance(error, WorkerLostError | SystemExit)
        if lost and feed is not None and not self.acknowledged and self.task.acks_late:
            feed.custody.worker_lost(self.message)
            self.acknowledged = True
        return super().on_failure(exc_info, *args, **kwargs)


_movers: WeakKeyDictionary[Any, tuple[Any, Mover]] = WeakKeyDictionary()
"""Of workers without the bootstep: by the consumer, its connection and the mover for it."""


def _mover_of(consumer: Any) -> Mover:
    """Return one for all tasks of a consumer's present connection."""
    connection, mover = _movers.get(consumer, (None, None))
    if mover is None or connection is not consumer.connection:
        connection, settings = consumer.connection, Settings.of(consumer.app)
        mover = broker_of(connection).mover(settings.dead_letters, connection)
        _movers[consumer] = connection, mover
    return mover


def strategy(task: Any, app: Any, consumer: Any, **options: Any) -> Callable[..., object]:
    """Celery's strategy for non-repeatable tasks; on a worker without the bootstep, with the check.

    There it is all that can be done: Celery acknowledges with ``ack="before"`` when the task has
    started, or while it does. Nothing is claimed; what a ledger may be asked about is marked first.
    """
    handle: Callable[..., object] = default(task, app, consumer, **options)
    if hasattr(consumer, "fair"):
        return handle
    mover = _mover_of(consumer)
    dead_letters = DeadLetters(consumer.hostname, mover)

    def checked(message: Any, *args: Any, **kwargs: Any) -> None:
        if is_redelivered(message):
            dead_letters.bury(message, REDELIVERED)
        elif may_be_claimed_elsewhere(message.headers, None):
            _mark(message, mover)
        else:
            handle(message, *args, **kwargs)

    return checked


def _mark(message: Any, mover: Mover) -> None:
    try:
        mover.give_back(message, {STRICT: True})
    except Exception:  # whatever it is, it must not start
        logger.exception("Task %s[%s] is not started: it could not be marked", *described(message))
