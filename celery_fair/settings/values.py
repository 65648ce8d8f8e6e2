"""What a single value of a setting may be: each check returns it, or says what is allowed.

All take ``where``, the setting's name as the user writes it, and raise
`celery.exceptions.ImproperlyConfigured`.
"""

import math
import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

from celery.exceptions import ImproperlyConfigured

from celery_fair.core.dwrr import check_quantum
from celery_fair.core.token_bucket import parse_rate

__all__ = [
    "FETCHES",
    "SCOPES",
    "Address",
    "address",
    "burst",
    "count",
    "fetch",
    "flag",
    "imported",
    "level",
    "mapping",
    "one_of",
    "quantum",
    "queue_name",
    "rate",
    "scope",
    "seconds",
    "text",
    "url",
    "whole",
]

SCOPES = ("worker", "cluster")
FETCHES = ("push", "pull")
_LONGEST_NAME = 255  # bytes; AMQP's short string
_LARGEST_COUNT = 65535  # AMQP's prefetch count is a short
_LARGEST_BURST = 1_000_000_000  # far above it, a float would not tell a token
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


def quantum(where: str, value: Any) -> float:
    try:
        return check_quantum(value)
    except ValueError as exc:
        raise ImproperlyConfigured(f"{where}: {exc}") from None
    except OverflowError as exc:
        raise ImproperlyConfigured(f"{where}: quantum must be a finite number: {exc}") from None


def count(where: str, value: Any) -> int | None:
    if value is None or (_is_whole(value) and 1 <= value <= _LARGEST_COUNT):
        return value  # type: ignore[no-any-return]
    raise ImproperlyConfigured(
        f"{where} must be a whole number from 1 to {_LARGEST_COUNT}, or None, not {value!r}"
    )


def burst(where: str, value: Any) -> int:
    return whole(where, value, 1, _LARGEST_BURST)


def level(where: str, value: Any) -> int:
    return whole(where, value, 0, _LARGEST_COUNT)


def whole(where: str, value: Any, least: int, most: float = math.inf) -> int:
    if _is_whole(value) and least <= value <= most:
        return value  # type: ignore[no-any-return]
    bounds = f"of at least {least}" if most == math.inf else f"from {least} to {most}"
    raise ImproperlyConfigured(f"{where} must be a whole number {bounds}, not {value!r}")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def rate(where: str, value: Any) -> float | None:
    try:
        return None if value is None else parse_rate(value)
    except ValueError as exc:
        raise ImproperlyConfigured(f"{where}: {exc}") from None


def flag(where: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise ImproperlyConfigured(f"{where} must be True or False, not {value!r}")


def scope(where: str, value: Any) -> str:
    return one_of(where, value, SCOPES)


def fetch(where: str, value: Any) -> str:
    return one_of(where, value, FETCHES)


def one_of(where: str, value: Any, allowed: tuple[str, ...]) -> str:
    if value in allowed:
        return str(value)
    raise ImproperlyConfigured(
        f"{where} must be one of {', '.join(map(repr, allowed))}, not {value!r}"
    )


def text(where: str, value: Any) -> str | None:
    if value is None or (isinstance(value, str) and value):
        return value
    raise ImproperlyConfigured(f"{where} must be text, not {value!r}")


def url(where: str, value: Any) -> str | None:
    if value is None or (isinstance(value, str) and _SCHEME.match(value)):
        return value
    shown = value.partition("@")[2] if isinstance(value, str) and "@" in value else value
    raise ImproperlyConfigured(
        f"{where} must be a URL such as 'redis://localhost/1', 'sqlite:////var/lib/shop/ledger.db'"
        f" or 'postgresql+psycopg://user@host/shop', or None, not {shown!r}"
    )


def address(where: str, value: Any) -> Address | None:
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


def imported(where: str, path: str) -> Any:
    module, _, attribute = path.replace(":", ".").rpartition(".")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as exc:
        raise ImproperlyConfigured(f"{where}: cannot import {path!r}: {exc}") from exc
