"""How the event log's records are written, of what a worker knows.

Starts and ends, which each message has, are put together as text: twice as fast as by a library.
"""

from functools import lru_cache
from json.encoder import encode_basestring_ascii
from typing import Any

from celery_fair.core.keys.fair_key import read_key
from celery_fair.eventlog import quoted
from celery_fair.headers import time_of
from celery_fair.settings import Settings

NOTE = "fair"
"""The attribute of a running task's request."""

Note = tuple[str, int, bool, str | None, float]
"""Queue, arrival in microseconds since 1970, redelivered, cost key, cost."""


def about(task: str, id_: str, retries: Any, note: Note) -> str:
    """Return the fields that a start and its end have in common."""
    cost_key = note[3]
    return (
        f'"id":{encode_basestring_ascii(id_)},"retries":{whole(retries) or 0},'
        f"{_place(task, note[0])},"
        f'"cost_key":{"null" if cost_key is None else quoted(cost_key)}'
    )


def started(
    attempt: str, note: Note, published: int | None, repeatable: bool, key: str | None
) -> str:
    """Return a record's fields; `attempt` is those of `about`."""
    _, received, redelivered, _, cost = note
    whose = "" if key is None else f'"key":{encode_basestring_ascii(key)},'
    return (
        f'{attempt},{whose}"published":{"null" if published is None else published},'
        f'"received":{received},"redelivered":{"true" if redelivered else "false"},'
        f'"repeatable":{"true" if repeatable else "false"},"cost":{cost!r}'
    )


def finished(attempt: str, state: str, runtime: int, exception: str | None) -> str:
    """Return a record's fields; `attempt` is those of `about`."""
    return (
        f'{attempt},"state":{quoted(state)},"runtime":{runtime},'
        f'"exception":{"null" if exception is None else quoted(exception)}'
    )


@lru_cache(maxsize=10_000)
def _place(task: str, queue: str) -> str:
    return f'"task":{encode_basestring_ascii(task)},"queue":{encode_basestring_ascii(queue)}'


def costs_of(settings: Settings) -> str:
    """Return what costs are, as the log says it."""
    if settings.cost is None:
        return "one"
    return "runtime" if isinstance(settings.cost, str) else "custom"


def key_of(header: Any) -> str | None:
    """Return whose a message is, as scheduling by key reads it: anybody may have written that."""
    if header is None:
        return None
    return "/".join(filter(None, read_key(header))) or None


def microseconds(header: Any) -> int | None:
    """Return a header's time, or ours."""
    seconds = time_of(header)
    return None if seconds is None else round(seconds * 1e6)


def whole(value: Any) -> int | None:
    """Return a header's number if it is whole, and one that a reader's 64 bits can hold."""
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63
    return int(value) if whole else None
