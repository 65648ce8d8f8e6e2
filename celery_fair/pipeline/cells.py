"""Rows of tables for a reader, on a terminal and in the report."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

_PARTS = ("share", "target", "deviation", "share_of_seconds", "part_of_queue")
"""The columns that are parts of a whole."""

_TIMES = ("started_at", "rejected_at", "since", "until")


def columns(text: str) -> list[tuple[str, str]]:
    """Return what columns are called, and their names, of "queue, off by: deviation"."""
    words = (word.partition(": ") for word in text.split(", "))
    return [(head, name or head) for head, _, name in words]


def moment(seconds: float) -> str:
    """Return a time, in seconds since 1970, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def cell(row: Mapping[str, Any], name: str) -> Any:
    """Return what stands in a column: parts as such; None if it is not known."""
    if name == "key" and "tenant" in row:
        return _key(row)
    value = row[name]
    if name in _PARTS and value is not None:
        return f"{value:+.2%}" if name == "deviation" else f"{value:.2%}"
    if name in _TIMES and value is not None:
        return None if math.isinf(value) else moment(value)
    if isinstance(value, dict):
        return ", ".join(f"{n} {each}" for each, n in sorted(value.items()))
    return value


def _key(row: Mapping[str, Any]) -> str:
    """Whose it is: a tenant's, its part's, or of those without a key."""
    return "/".join(filter(None, (row["tenant"], row.get("part")))) or "(no key)"
