"""Requests made the short way: for messages of Celery's second protocol.

On Celery's way each message passes promises, signals, events, callbacks and a rate limit that are
there for nobody, as a rule, and its body is decoded twice, here and by who runs the task. Whoever
listens, to the log, to ``task_received`` or to events, is told in Celery's words and order. What is
unusual in any way takes Celery's way: a task with a strategy or a request class of its own or a
rate limit, one that maps another; a message with an ETA or an expiry, that is revoked or stamped,
of another protocol or content type.

There is no seam for this in Celery: ``create_request_cls``, by which its strategies make their
requests, is the nearest thing.
"""

import json
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from celery import signals
from celery.app import trace
from celery.worker import state
from celery.worker.request import create_request_cls  # type: ignore[attr-defined]
from kombu.serialization import registry  # type: ignore[attr-defined]
from kombu.utils import json as kombu_json
from kombu.utils.imports import symbol_by_name

from celery_fair.worker import patches

logger = logging.getLogger("celery.worker.strategy")

_JSON = "application/json"
_STRATEGIES = ("celery.worker.strategy:default", "celery_fair.worker.launch.requests:strategy")
_REQUESTS = ("celery.worker.request:Request", "celery_fair.worker.launch.requests:OnceRequest")

_loads = json.JSONDecoder(object_hook=kombu_json.object_hook).decode
"""What kombu makes anew for each message."""


class FastRequests:
    """One a connection of the worker's, as Celery's strategies are.

    Arguments:
        c: Celery's consumer.
    """

    def __init__(self, c: Any) -> None:
        self._c = c
        patches.find_own_headers_faster()
        # Pools in this process get arguments, as Celery hands them on for its first protocol.
        self._decoded = c.pool.body_can_be_buffer
        self._is_loops = bool(c.hub and c.pool.signal_safe)  # acknowledgements come from the loop
        self._makers: dict[str, Callable[..., Any] | None] = {}
        self._revoked = c.controller.state.revoked
        self._is_kombus = registry._decoders.get(_JSON) is kombu_json.loads
        self._call_soon = getattr(c, "call_soon_ack", c.call_soon)

    def request(self, message: Any) -> Any:
        """Return the request that Celery's strategy would make of a message, or None."""
        headers = message.headers
        try:
            name = headers["task"]
            make = self._makers[name]
        except KeyError:
            if "task" not in headers:
                return None
            make = self._makers[name] = self._maker(name)
        if message.prepared:
            return None if self._c.task_buckets[name] else message.prepared  # limited since then
        if make is None or self._is_unusual(message, headers, name):
            return None
        ack, reject = message.ack_log_error, message.reject_log_error
        if not self._is_loops:
            ack, reject = partial(self._call_soon, ack), partial(self._call_soon, reject)
        request = make(
            message,
            on_ack=ack,
            on_reject=reject,
            body=message.payload if self._decoded else message.body,
            headers=headers,
        )
        self._announce(request)
        return request

    def _is_unusual(self, message: Any, headers: Any, name: str) -> bool:
        c = self._c
        return bool(
            message.errors
            or headers.get("eta")
            or headers.get("expires")
            or headers.get("stamped_headers")
            or headers.get("id") in self._revoked
            or c.on_task_message
            or c.task_buckets[name]
            or not self._decode(message)
        )

    def _decode(self, message: Any) -> bool:
        """Decode the body as kombu would; False if it is not for us."""
        if (
            message.content_type != _JSON
            or (message.content_encoding or "").lower() != "utf-8"
            or _JSON not in (message.accept or ())
            or not self._is_kombus
        ):
            return False
        body = message.body
        try:
            payload = _loads(body.decode() if isinstance(body, bytes) else body)
        except ValueError:
            return False
        if type(payload) is not list or len(payload) != 3:
            return False
        message.is_decoded(payload)
        return True

    def _announce(self, request: Any) -> None:
        """Say that it is received, to whoever listens, in the order of Celery's strategy."""
        if logger.isEnabledFor(logging.INFO):
            context = {
                "id": request.id,
                "name": request.name,
                "args": request.argsrepr,
                "kwargs": request.kwargsrepr,
                "eta": request.eta,
            }
            logger.info(trace.LOG_RECEIVED, context, extra={"data": context})
        if signals.task_received.receivers:
            signals.task_received.send(sender=self._c, request=request)
        events = self._c.event_dispatcher
        if request.task.send_events and _sends_task_events(events):
            events.send(
                "task-received",
                uuid=request.id,
                name=request.name,
                args=request.argsrepr,
                kwargs=request.kwargsrepr,
                root_id=request.root_id,
                parent_id=request.parent_id,
                retries=request.request_dict.get("retries", 0),
                eta=None,
                expires=None,
            )

    def _maker(self, name: str) -> Callable[..., Any] | None:
        c, task = self._c, self._c.app.tasks.get(name)
        if task is None or task.Strategy not in _STRATEGIES or task.Request not in _REQUESTS:
            return None
        if name not in c.strategies:  # registered since: it has no tracer yet
            return None
        if not (c.app.backend_cls or c.app.conf.result_backend):
            task.backend = task.backend  # else each thread and greenlet makes its own
        remembered = task.acks_late or c.app.conf.worker_deduplicate_successful_tasks
        request = create_request_cls(
            symbol_by_name(task.Request),
            task,
            c.pool,
            c.hostname,
            c.event_dispatcher,
            app=c.app,
            task_ready=state.task_ready if remembered else _ready,
        )
        return partial(
            request,
            app=c.app,
            hostname=c.hostname,
            eventer=c.event_dispatcher,
            task=task,
            connection_errors=c.connection_errors,
            decoded=self._decoded,
            utc=c.app.uses_utc_timezone(),
        )


def _sends_task_events(dispatcher: Any) -> bool:
    """Whether anybody hears of tasks: for the worker's own heartbeat the dispatcher is on, too."""
    if not dispatcher or not dispatcher.enabled:
        return False
    return not dispatcher.groups or "task" in dispatcher.groups


def _ready(request: Any, successful: bool = False) -> None:  # noqa: ARG001 - Celery's
    """Tell Celery's state, which need not remember what nobody asks for."""
    state.task_ready(request)
