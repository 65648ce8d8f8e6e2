"""Whose a message is: said in a header, by which a queue of ``fair_keys`` is shared.

The header is put on in Celery's sender, which every way of publishing goes through (see `sender`),
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
from celery_fair.routing.floods import Floods
from celery_fair.routing.publication import Publication, Step, arguments
from celery_fair.settings import KeyedQueue

logger = logging.getLogger(__name__)


def keyed(amqp: Any, queues: Mapping[str, KeyedQueue]) -> Step:
    """Return the step that says in each message whose it is.

    That is what is found first: the option ``fair_key``; the header, if the publisher has set it;
    the key of the task that is being retried or replaced; what the task's ``fair_key``, and then
    what the queue's ``key``, makes of the arguments; the key of the task that publishes.

    It raises `TypeError` or `ValueError` for an option that cannot be a key. What a function fails
    to name is nobody's, and is logged: a message is never lost for its key.
    """
    floods = Floods(amqp)

    def name_key(this: Publication) -> None:
        headers = this.options.get("headers") or {}
        fair_key, found = this.options.pop("fair_key", None), headers.get(FAIR_KEY)
        _, target = this.aimed_at(queues)
        if fair_key is not None:
            try:
                found = written_key(fair_key)
            except (TypeError, ValueError) as exc:
                raise type(exc)(f"{this.task}: fair_key: {exc}") from None
        elif FAIR_KEY not in headers:
            found = _found(amqp.app, target, this.task, this.message)
        if found is not None:
            this.options["headers"] = {**headers, FAIR_KEY: found}
        sort_at_once(this.producer, queues)
        if target is not None:
            lane = floods.lane(this.producer.connection, target, "/".join(read_key(found)))
            if lane is not None:
                this.aim(lane)

    return name_key


def _found(app: Any, target: KeyedQueue | None, name: str, message: Any) -> str | None:
    request: Any = getattr(app.current_worker_task, "request", None)
    inherited = None if request is None else request.get(FAIR_KEY)
    if inherited is not None and request.id == message.headers.get("id"):
        return str(inherited)
    args, kwargs = arguments(message)
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
