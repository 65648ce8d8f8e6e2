"""What a single value of a setting may be: each check returns it, or says what is allowed.

All take ``where``, the setting's name as the user writes it, and raise
`celery.exceptions.ImproperlyConfigured`. The types at the end carry their checks with them, for
the fields of `celery_fair.settings.table`.
"""

import math
import re
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from importlib import import_module
from typing import Annotated, Any, NamedTuple

from celery.exceptions import ImproperlyConfigured

from celery_fair.core.pricing import check_quantum
from celery_fair.core.targets import Target, parse_target
from celery_fair.core.token_bucket import parse_rate

Check = Callable[[str, Any], Any]
"""``check(where, value)`` returns the value."""

ByQueue = Mapping[str, Mapping[str, Any]]
"""Options by queue, as they are given."""

_LONGEST_NAME = 255  # bytes; AMQP's short string
_LARGEST_COUNT = 65535  # AMQP's prefetch count is a short
_LARGEST_BURST = 1_000_000
ENCODED = (
    "special characters in a user name or password must be percent-encoded (an @ as %40, a / as"
    " %2F), a port is a number up to 65535, and options are those that its client knows"
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://?")
_ADDRESS = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9_.-]+)):(?P<port>[0-9]{1,5})"
)


class Address(NamedTuple):
    """Where a server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


# Kinds of checks ------------------------------------------------------------------


def read_by(read: Callable[[Any], Any], wanted: str, shown: Callable[[Any], str] = repr) -> Check:
    """Return a check for what can be read; `read` returns it, or raises TypeError or ValueError."""

    def check(where: str, value: Any) -> Any:
        try:
            return read(value)
        except (TypeError, ValueError):
            raise ImproperlyConfigured(f"{where} must be {wanted}, not {shown(value)}") from None

    return check


def such(is_it: Callable[[Any], object], wanted: str, shown: Callable[[Any], str] = repr) -> Check:
    """Return a check for what passes a test."""

    def read(value: Any) -> Any:
        if is_it(value):
            return value
        raise ValueError

    return read_by(read, wanted, shown)


def parsed(parse: Callable[[Any], Any]) -> Check:
    """Return a check for what a parser takes; its `ValueError` says what that is."""

    def check(where: str, value: Any) -> Any:
        try:
            return parse(value)
        except ValueError as exc:
            raise ImproperlyConfigured(f"{where}: {exc}") from None

    return check


def or_none(check: Check) -> Check:
    """Return a check that takes None, too."""
    return lambda where, value: None if value is None else check(where, value)


def by_queue(entry: Callable[[str, str, Any], Any]) -> Check:
    """Return a check for what queues are given by name.

    Arguments:
        entry: ``entry(where, name, value)`` returns what a queue is given, checked.
    """

    def check(where: str, value: Any) -> dict[str, Any]:
        return {
            queue_name(where, name): entry(f"{where}[{name!r}]", name, given)
            for name, given in mapping(where, value).items()
        }

    return check


def choice(*allowed: str) -> Check:
    """Return a check for one of certain texts."""
    return such(allowed.__contains__, f"one of {', '.join(map(repr, allowed))}")


def whole(least: int, most: float = math.inf) -> Check:
    """Return a check for a whole number within bounds."""
    bounds = f"of at least {least}" if most == math.inf else f"from {least} to {most}"
    return such(
        lambda value: _is_whole(value) and least <= value <= most, f"a whole number {bounds}"
    )


def number(is_it: Callable[[float], bool], wanted: str) -> Check:
    """Return a check for a number that passes a test, as a float."""

    def read(value: Any) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool) and is_it(value):
            return float(value)
        raise ValueError

    return read_by(read, wanted)


def function(wanted: str) -> Check:
    """Return a check for a callable, or the dotted path of one, which is imported.

    Arguments:
        wanted: what it must be, in words, "a callable" and of what.
    """
    check = such(callable, f"{wanted}, or the dotted path of one")
    return lambda where, value: check(
        where, _imported(where, value) if isinstance(value, str) else value
    )


def _imported(where: str, path: str) -> Any:
    module, _, attribute = path.replace(":", ".").rpartition(".")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError, TypeError, ValueError) as exc:  # TypeError: ".costs"
        raise ImproperlyConfigured(f"{where}: cannot import {path!r}: {exc}") from exc


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# Checks ---------------------------------------------------------------------------


def mapping(where: str, value: Any) -> Mapping[Any, Any]:
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return value
    raise ImproperlyConfigured(
        f"{where} must be a mapping of queue names to options, not {value!r}"
    )


def queue_name(where: str, name: Any) -> str:
    if isinstance(name, str) and name.strip() and len(name.encode()) <= _LONGEST_NAME:
        return name
    raise ImproperlyConfigured(
        f"{where}: {name!r} is no queue name; a name is text of 1 to {_LONGEST_NAME} bytes"
    )


def harmless(url: Any) -> str:
    """Return what can be shown of a URL of any kind: no part of a password."""
    if not isinstance(url, str):
        return f"a value of type {type(url).__name__}"
    scheme, mark, _ = url.partition("://")
    if mark and re.fullmatch(r"[a-zA-Z0-9+]+", scheme):
        return f"'{scheme}://…'"
    return repr(url) if re.fullmatch(r"[\w.-]*", url) else "'***'"


def unread(url: str, exc: Exception) -> str:
    """Return why a URL cannot be read: as the error says, unless it may show a password."""
    return ENCODED if "@" in url else str(exc)


def _listening(value: Any) -> Address:
    match = _ADDRESS.fullmatch(value)
    if match is None or not 1 <= int(match["port"]) <= _LARGEST_COUNT:
        raise ValueError
    return Address(match["v6"] or match["host"], int(match["port"]))


def _moment(value: Any) -> float:
    """Return a time in seconds since 1970."""
    time = datetime.fromisoformat(value) if isinstance(value, str) else value
    if isinstance(time, datetime) and time.tzinfo is not None:
        return time.timestamp()
    raise ValueError


REDIS_SCHEMES = ("redis://", "rediss://", "unix://")
"""Of the URLs that the client of Redis takes."""

_SECONDS = "a finite number of seconds above zero"


def _is_finite(value: float) -> bool:
    return 0 < value <= sys.float_info.max


Quantum = Annotated[float, parsed(check_quantum)]
QueueName = Annotated[str, queue_name]
Flag = Annotated[bool, such(lambda value: isinstance(value, bool), "True or False")]
Positive = Annotated[int, whole(1)]
Burst = Annotated[int, whole(1, _LARGEST_BURST)]
Cap = Annotated[
    int | None,
    such(
        lambda value: value is None or (_is_whole(value) and 1 <= value <= _LARGEST_COUNT),
        f"a whole number from 1 to {_LARGEST_COUNT}, or None",
    ),
]
Rate = Annotated[float | None, or_none(parsed(parse_rate))]
Wait = Annotated[Target | None, or_none(parsed(parse_target))]
Seconds = Annotated[float, number(_is_finite, _SECONDS)]
SecondsOrNone = Annotated[float | None, or_none(number(_is_finite, f"{_SECONDS}, or None"))]
Moment = Annotated[
    float | None,
    or_none(read_by(_moment, "a time with its zone, such as '2026-05-31T14:00:00Z', or None")),
]
Text = Annotated[str | None, or_none(such(lambda value: value and isinstance(value, str), "text"))]
Listening = Annotated[
    Address | None,
    or_none(
        read_by(
            _listening,
            f"'host:port' with a port from 1 to {_LARGEST_COUNT}, such as '127.0.0.1:9808',"
            f" '[::1]:9808', or '0.0.0.0:9808' for all addresses, or None",
        )
    ),
]
Url = Annotated[
    str | None,
    or_none(
        such(
            lambda value: isinstance(value, str) and _SCHEME.match(value),
            "a URL such as 'redis://localhost/1', 'sqlite:////var/lib/shop/ledger.db' or"
            " 'postgresql+psycopg://user@host/shop', or None",
            shown=harmless,
        )
    ),
]
RedisUrl = Annotated[
    str | None,
    or_none(
        such(
            lambda value: isinstance(value, str) and value.startswith(REDIS_SCHEMES),
            "a URL of a Redis such as 'redis://localhost/1', 'rediss://…' or 'unix://…', or None",
            shown=harmless,
        )
    ),
]
