"""What a single value of a setting may be: each check returns it, or says what is allowed.

All take ``where``, the setting's name as the user writes it, and raise
`celery.exceptions.ImproperlyConfigured`. The types at the end carry their checks with them, for
the fields of `celery_fair.settings.table`.
"""

import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from importlib import import_module
from typing import Annotated, Any, NamedTuple

from celery.exceptions import ImproperlyConfigured

from celery_fair.core.dwrr import check_quantum
from celery_fair.core.targets import Target, parse_target
from celery_fair.core.token_bucket import parse_rate

Check = Callable[[str, Any], Any]
"""``check(where, value)`` returns the value."""

ByQueue = Mapping[str, Mapping[str, Any]]
"""Options by queue, as they are given."""

_LONGEST_NAME = 255  # bytes; AMQP's short string
_LARGEST_COUNT = 65535  # AMQP's prefetch count is a short
_LARGEST_BURST = 1_000_000
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


def by_queue(where: str, value: Any) -> ByQueue:
    """Check names of queues and that each has options; what they are, is checked elsewhere."""
    queues = {queue_name(where, name): options for name, options in mapping(where, value).items()}
    for name, options in queues.items():
        if not isinstance(options, Mapping):
            raise ImproperlyConfigured(
                f"{where}[{name!r}] must be a mapping of options such as {{'quantum': 10}}, not"
                f" {options!r}"
            )
    return queues


def quantum(where: str, value: Any) -> float:
    try:
        return check_quantum(value)
    except ValueError as exc:
        raise ImproperlyConfigured(f"{where}: {exc}") from None


def count(where: str, value: Any) -> int | None:
    if value is None or (_is_whole(value) and 1 <= value <= _LARGEST_COUNT):
        return value  # type: ignore[no-any-return]
    raise ImproperlyConfigured(
        f"{where} must be a whole number from 1 to {_LARGEST_COUNT}, or None, not {value!r}"
    )


def whole(where: str, value: Any, least: int, most: float = math.inf) -> int:
    if _is_whole(value) and least <= value <= most:
        return value  # type: ignore[no-any-return]
    bounds = f"of at least {least}" if most == math.inf else f"from {least} to {most}"
    raise ImproperlyConfigured(f"{where} must be a whole number {bounds}, not {value!r}")


burst = partial(whole, least=1, most=_LARGEST_BURST)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def rate(where: str, value: Any) -> float | None:
    try:
        return None if value is None else parse_rate(value)
    except ValueError as exc:
        raise ImproperlyConfigured(f"{where}: {exc}") from None


def target(where: str, value: Any) -> Target | None:
    try:
        return None if value is None else parse_target(value)
    except ValueError as exc:
        raise ImproperlyConfigured(f"{where}: {exc}") from None


def part(where: str, value: Any, most: float) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= most:
        return float(value)
    raise ImproperlyConfigured(f"{where} must be a number above 0 and up to {most}, not {value!r}")


def flag(where: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise ImproperlyConfigured(f"{where} must be True or False, not {value!r}")


def choice(*allowed: str) -> Check:
    """Return a check for one of certain texts."""

    def check(where: str, value: Any) -> str:
        if value in allowed:
            return str(value)
        raise ImproperlyConfigured(
            f"{where} must be one of {', '.join(map(repr, allowed))}, not {value!r}"
        )

    return check


def text(where: str, value: Any) -> str | None:
    if value is None or (isinstance(value, str) and value):
        return value
    raise ImproperlyConfigured(f"{where} must be text, not {value!r}")


REDIS_SCHEMES = ("redis://", "rediss://", "unix://")
"""Of the URLs that the client of Redis takes."""

_REDIS = "'redis://localhost/1'"
_STORES = f"{_REDIS}, 'sqlite:////var/lib/shop/ledger.db' or 'postgresql+psycopg://user@host/shop'"


def url(where: str, value: Any, such_as: str = _STORES) -> str | None:
    if value is None or (isinstance(value, str) and _SCHEME.match(value)):
        return value
    raise ImproperlyConfigured(
        f"{where} must be a URL such as {such_as}, or None, not {harmless(value)}"
    )


def redis_url(where: str, value: Any) -> str | None:
    given = url(where, value, such_as=_REDIS)
    if given is None or given.startswith(REDIS_SCHEMES):
        return given
    raise ImproperlyConfigured(
        f"{where} must name a Redis: set {where} = 'redis://…', 'rediss://…' or 'unix://…', not"
        f" {harmless(given)}"
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
    if "@" not in url:
        return str(exc)
    return (
        "special characters in a user name or password must be percent-encoded (an @ as %40, a / as"
        " %2F), and a port is a number up to 65535"
    )


def listening(where: str, value: Any) -> Address | None:
    if value is None:
        return None
    match = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
    if match is None or not 1 <= int(match["port"]) <= _LARGEST_COUNT:
        raise ImproperlyConfigured(
            f"{where} must be 'host:port' with a port from 1 to {_LARGEST_COUNT}, such as"
            f" '127.0.0.1:9808', '[::1]:9808', or '0.0.0.0:9808' for all addresses, or None,"
            f" not {value!r}"
        )
    return Address(match["v6"] or match["host"], int(match["port"]))


def seconds(where: str, value: Any, besides: str = ",") -> float:
    try:
        return check_quantum(value)
    except ValueError:
        raise ImproperlyConfigured(
            f"{where} must be a finite number of seconds above zero{besides} not {value!r}"
        ) from None


def seconds_or_none(where: str, value: Any) -> float | None:
    return None if value is None else seconds(where, value, ", or None,")


def moment(where: str, value: Any) -> float | None:
    """Return a time in seconds since 1970."""
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else value
        if time is None:
            return None
        if isinstance(time, datetime) and time.tzinfo is not None:
            return time.timestamp()
    except ValueError:
        pass
    raise ImproperlyConfigured(
        f"{where} must be a time with its zone, such as '2026-05-31T14:00:00Z', or None, not"
        f" {value!r}"
    )


def function(where: str, value: Any, wanted: str) -> Callable[..., Any]:
    """Check a callable, or import the one whose dotted path is given.

    Arguments:
        wanted: what it must be, in words, "a callable" and of what.
    """
    found = _imported(where, value) if isinstance(value, str) else value
    if callable(found):
        return found  # type: ignore[no-any-return]
    raise ImproperlyConfigured(
        f"{where} must be {wanted}, or the dotted path of one, not {found!r}"
    )


def _imported(where: str, path: str) -> Any:
    module, _, attribute = path.replace(":", ".").rpartition(".")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as exc:
        raise ImproperlyConfigured(f"{where}: cannot import {path!r}: {exc}") from exc


Burst = Annotated[int, burst]
Cap = Annotated[int | None, count]
Flag = Annotated[bool, flag]
Moment = Annotated[float | None, moment]
Positive = Annotated[int, partial(whole, least=1)]
Quantum = Annotated[float, quantum]
QueueName = Annotated[str, queue_name]
Rate = Annotated[float | None, rate]
RedisUrl = Annotated[str | None, redis_url]
Seconds = Annotated[float, seconds]
Wait = Annotated[Target | None, target]
Text = Annotated[str | None, text]
Url = Annotated[str | None, url]
