"""From a message to Celery's request: by the short way or Celery's; and what it does with it."""

import logging
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from inspect import signature
from typing import Any

from billiard.exceptions import WorkerLostError
from celery.worker.request import Request
from celery.worker.strategy import default

from celery_fair.brokers.broker import broker_of
from celery_fair.brokers.mover import Mover
from celery_fair.brokers.payload import is_redelivered
from celery_fair.dead_letters.death import REDELIVERED
from celery_fair.headers import STRICT
from celery_fair.settings import Settings
from celery_fair.worker.launch.admission import may_be_claimed_elsewhere
from celery_fair.worker.letters import DeadLetters, described, refuse
from celery_fair.worker.queues.consumer import FairTaskConsumer
from celery_fair.worker.wake_up import WakeUp

ShortWay = Callable[[Any], Any]
"""Returns the request that Celery would make of a message, or None if it is not for this way."""


class Handover:
    """One a process: Celery's strategies remember whom to tell of their requests.

    Arguments:
        wake_up: asked when the pool has grown.
    """

    def __init__(self, wake_up: WakeUp) -> None:
        self._wake_up = wake_up
        self._offered: Any = None
        self._request: Any = None
        self._for_eta = False

    def offer(self, handle: Callable[[Any], object], message: Any) -> Any:
        """Return the request that Celery makes of a message, or None if it makes none.

        It has put the message off then, for its ETA or for a rate limit, or it is over: revoked,
        expired, or refused.

        Whatever the message contains, the worker lives. Celery's own handler refuses what it
        recognises as malformed; what it does not foresee (a header of another type, a body of
        another shape) ends a vanilla worker, stays queued, and ends the next one.

        Arguments:
            handle: hands the message to Celery, or returns the request itself.
        """
        self._offered, self._request, self._for_eta = message, None, False
        try:
            if message.headers is not None and message.errors:  # these come of decoding those
                message._reraise_error()
            request = handle(message) or self._request
            if request is not None:
                return request
        except Exception as exc:  # noqa: BLE001 - a message may fail in any way; the worker must not
            refuse(message, exc)
        finally:
            self._offered = self._request = None
        if not message.acknowledged:
            message.feed.aside.put(message, eta=self._for_eta)
        return None

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
            self._wake_up.later()
        else:
            self._for_eta = True


class Requests:
    """Receives the messages of one connection.

    Arguments:
        consumer: has Celery's handler, once Celery's loop has given it.
        short_way: tried before that; see `celery_fair.worker.fast_path.fast_requests`.
        tokens: the fencing tokens of partitions that are owned.
        priorities_back: turns a level's priority back into the publisher's, by queue.
        handover: hears what Celery makes of them.
    """

    def __init__(
        self,
        consumer: FairTaskConsumer,
        short_way: ShortWay,
        tokens: Mapping[str, int],
        priorities_back: Mapping[str, Callable[[int], int]],
        handover: Handover,
    ) -> None:
        self._consumer = consumer
        self._short_way = short_way
        self._tokens = tokens
        self._priorities_back = priorities_back
        self._handover = handover

    def offer(self, message: Any) -> Any:
        """Return the request that Celery makes of a message, or None if it makes none."""
        return self._handover.offer(self._receive, message)

    def prepare(self, message: Any) -> None:
        """Make a request of a message ahead of its turn, if the short way does; once."""
        queue = message.feed.name
        if message.prepared or queue in self._tokens or queue in self._priorities_back:
            return  # of the latter, the message is written to when it is received
        with suppress(Exception):  # it fails again when it is its turn, and is refused then
            if message.headers is not None and not message.errors:
                message.prepare(self._short_way(message))

    def _receive(self, message: Any) -> Any:
        """Return a message's request, or None if Celery is to say what becomes of it, or has.

        Raises:
            Exception: no task can be made of it.
        """
        queue = message.feed.name
        back = self._priorities_back.get(queue)
        if back is not None:
            message.properties["priority"] = back(message.properties.get("priority") or 0)
        token = self._tokens.get(queue)
        if token is not None:
            message.come_into(queue, token)
        request = self._short_way(message)
        if request is not None:
            return request
        handler = self._consumer.on_message
        assert handler is not None, (
            "Celery's loop gives the consumer its handler before it consumes"
        )
        handler(message)
        return None


def check_time_limits(request: Any) -> None:
    """Refuse limits that are no numbers of seconds: a prefork pool would end the worker, later.

    Raises:
        TypeError, ValueError, OverflowError: they are not; they come from the message.
    """
    hard, soft = request.time_limits
    for limit in (hard, soft):
        if limit is not None:
            math.ceil(limit)


def check_options(request: Any) -> None:
    """Refuse a body whose options are none: Celery finds out when the message is acknowledged.

    Raises:
        Exception: they are none, or the body cannot be decoded.
    """
    _, _, options = request._payload
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(f"a task's options must be a mapping, not {options!r:.200}")


logger = logging.getLogger(__name__)


_UNTOLD = {each: False for each in signature(Request.cancel).parameters if each == "emit_retry"}
"""That it is tried again is not told; before Celery 5.6 it never is."""


class OnceRequest(Request):
    """A request that is lost, or its message a dead letter, if its process dies while it runs."""

    def on_failure(self, exc_info: Any, *args: Any, **kwargs: Any) -> Any:
        feed = getattr(self.message, "feed", None)
        error = getattr(exc_info.exception, "exc", exc_info.exception)  # billiard may wrap it
        lost = isinstance(error, WorkerLostError | SystemExit)
        if lost and feed is not None and not self.acknowledged and self.task.acks_late:
            feed.dispositions.worker_lost(self.message)
            self.acknowledged = True
        return super().on_failure(exc_info, *args, **kwargs)

    def cancel(self, pool: Any, *args: Any, **_: Any) -> None:
        """As Celery's, at a cold shutdown, or when the connection is lost and the app says so; but
        nobody tries it again, as Celery would say."""
        super().cancel(pool, *args, **_UNTOLD)
        lost = WorkerLostError("It was cancelled by its worker.")
        context = self._context  # type: ignore[attr-defined]
        self.task.backend.mark_as_failure(self.id, lost, None, context, self.store_errors)


_UNKNOWN = (
    "not so, but a worker without celery-fair does not know its queue and cannot give it back"
)
"""What is wrong with a message that is to be claimed elsewhere, and came by an exchange."""


@lru_cache(maxsize=1)
def _mover_for(connection: Any, dead_letters: str) -> Mover:
    """Return one for all tasks of a connection, on a worker without the bootstep."""
    return broker_of(connection).mover(dead_letters, connection)


def strategy(task: Any, app: Any, consumer: Any, **options: Any) -> Callable[..., object]:
    """Celery's strategy for non-repeatable tasks; on a worker without the bootstep, with the check.

    There it is all that can be done: Celery acknowledges with ``ack="before"`` when the task has
    started, or while it does. Nothing is claimed; what a ledger may be asked about is marked first.
    """
    handle: Callable[..., object] = default(task, app, consumer, **options)
    if hasattr(consumer, "fair"):
        return handle
    mover = _mover_for(consumer.connection, Settings.of(app).dead_letters)
    dead_letters = DeadLetters(consumer.hostname, mover)

    def checked(message: Any, *args: Any, **kwargs: Any) -> None:
        if is_redelivered(message):
            dead_letters.dead_letter(message, REDELIVERED)
        elif may_be_claimed_elsewhere(message.headers, None):
            if message.delivery_info.get("exchange"):  # by which its queue is not known here
                dead_letters.dead_letter(message, REDELIVERED, _UNKNOWN, may_have_started=False)
            else:
                _mark(message, mover)
        else:
            handle(message, *args, **kwargs)

    return checked


def _mark(message: Any, mover: Mover) -> None:
    try:
        mover.give_back(message, {STRICT: True})
    except Exception:  # whatever it is, it must not start
        logger.exception("Task %s[%s] is not started: it could not be marked", *described(message))
