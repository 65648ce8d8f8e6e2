"""Whose a message is: said in a header, by which a queue of ``fair_keys`` is shared.

The header is put on in Celery's sender, which every way of publishing goes through (see `logical`),
whatever queue the message goes to: a queue can be shared by key later on, and what a task publishes
is its own tenant's. A publisher without this library sets the header itself.
"""

import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any

from celery_fair.brokers.keyed.publishing import sort_at_once
from celery_fair.core.keys.fair_key import read_key, written_key
from celery_fair.headers import FAIR_KEY
from celery_fair.routing.destination import destination
from celery_fair.routing.floods import Floods
from celery_fair.settings import KeyedQueue

logger = logging.getLogger(__name__)


def keyed(
    amqp: Any, queues: Mapping[str, KeyedQueue], send: Callable[..., Any]
) -> Callable[..., Any]:
    """Return Celery's sender `send`, which then says in each message whose it is.

    That is what is found first: the option ``fair_key``; the header, if the publisher has set it;
    the key of the task that is being retried or replaced; what the task's ``fair_key``, and then
    what the queue's ``key``, makes of the arguments; the key of the task that publishes.

    Calling it raises `TypeError` or `ValueError` for an option that cannot be a key. What a
    function fails to name is nobody's, and is logged: a message is never lost for its key.
    """

    floods = Floods(amqp)

    def send_task_message(
        producer: Any,
        name: str,
        message: Any,
        exchange: Any = None,
        routing_key: Any = None,
        queue: Any = None,
        fair_key: Any = None,
        **options: Any,
    ) -> Any:
        headers = options.get("headers") or {}
        found = headers.get(FAIR_KEY)
        _, _, target = destination(amqp, queues, exchange, routing_key, queue)
        if fair_key is not None:
            try:
                found = written_key(fair_key)
            except (TypeError, ValueError) as exc:
                raise type(exc)(f"{name}: fair_key: {exc}") from None
        elif FAIR_KEY not in headers:
            found = _found(amqp.app, target, name, message)
        if found is not None:
            options["headers"] = {**headers, FAIR_KEY: found}
        sort_at_once(producer, queues)
        if target is not None:
            key = "/".join(read_key(found))
            lane = floods.lane(producer.connection, target, key)
            if lane is not None:
                exchange, routing_key, queue = None, None, lane
        return send(
            producer,
            name,
            message,
            exchange=exchange,
            routing_key=routing_key,
            queue=queue,
            **options,
        )

    return send_task_message


def _found(app: Any, target: KeyedQueue | None, name: str, message: Any) -> str | None:
    request: Any = getattr(app.current_worker_task, "request", None)
    inherited = None if request is None else request.get(FAIR_KEY)
    if inherited is not None and request.id == message.headers.get("id"):
        return str(inherited)
    args, kwargs = _arguments(message)
    own = _function(app._tasks.get(name))  # `tasks` would finalize an app that only publishes
    if own is not None:
        found = _named(f"fair_key of {name}", own, *args, **kwargs)
        if found is not None:
            return found
    if target is not None and target.key is not None:
        where = f"fair_keys[{target.name!r}]['key']"
        found = _named(where, target.key, name, tuple(args), kwargs)
        if found is not None:
            return found
    return None if inherited is None else str(inherited)


def _arguments(message: Any) -> tuple[Any, Any]:
    """Those of the task, whichever of Celery's protocols this is."""
    if isinstance(message.body, Mapping):
        return message.body.get("args") or (), message.body.get("kwargs") or {}
    args, kwargs, *_ = message.body
    return args or (), kwargs or {}


def _function(task: Any) -> Callable[..., Any] | None:
    """A task's ``fair_key``: an attribute of its class, which it is no method of."""
    found = inspect.getattr_static(task, "fair_key", None)
    function: Callable[..., Any] | None = getattr(found, "__func__", found)
    return function


def _named(where: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> str | None:
    try:
        key = function(*args, **kwargs)
        return None if key is None else written_key(key)
    except Exception as exc:  # noqa: BLE001 - the function is the user's, the message anybody's
        logger.warning("%s failed, the message is nobody's in particular: %r", where, exc)
        return None
