"""What can be read of a message without running anything of it.

JSON is parsed; pickle, YAML and the like are not.
"""

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

from celery_fair.dead_letters.letter import Letter

_ZLIB = "application/x-gzip"
"""What kombu calls a zlib stream."""

_LARGEST = 1 << 20
"""Bytes that a compressed body is expanded to at the most."""


def readable(letter: Letter, limit: int) -> dict[str, Any]:
    """Return the body as text or, if it is none, in base64; arguments apart, if it is JSON.

    Arguments:
        limit: characters, or bytes of what is no text, to show at the most; 0 for all.
    """
    body = _expanded(letter)
    part = body[: limit or None]
    shown: dict[str, Any] = {"bytes": len(letter.body)}
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return {**shown, "cut": len(part) < len(body), "base64": base64.b64encode(part).decode()}
    shown |= {"cut": bool(limit) and len(text) > limit, "text": text[: limit or None]}
    if not shown["cut"]:
        shown |= _arguments(text)
    return shown


def _expanded(letter: Letter) -> bytes:
    if letter.headers.get("compression") != _ZLIB:
        return letter.body
    try:
        return zlib.decompressobj().decompress(letter.body, _LARGEST)
    except zlib.error:
        return letter.body


def _arguments(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    match value:
        case [list(args), dict(kwargs), *_]:
            return {"args": args, "kwargs": kwargs}
        case {"args": list(args), "kwargs": dict(kwargs)}:
            return {"args": args, "kwargs": kwargs}
    return {}


def plain(value: Any, depth: int = 0) -> Any:
    """Return a header's value as JSON has it."""
    if depth > 20:
        return "(nested too deeply)"
    if isinstance(value, Mapping):
        return {
            name if isinstance(name, str) else repr(name): plain(each, depth + 1)
            for name, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [plain(each, depth + 1) for each in value]
    if isinstance(value, bytes | bytearray):
        return {"base64": base64.b64encode(value).decode()}
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return str(value)
