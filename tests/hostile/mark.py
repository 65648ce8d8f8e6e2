"""By what a message is known, wherever it is left."""

from __future__ import annotations

import re
from typing import Any

_MARK = re.compile(r"hostile:(\d+):")


def mark(number: int) -> str:
    return f"hostile:{number}:"


def marked(found: Any) -> int | None:
    """Return the number of the message that this is of, if that can be told."""
    seen = _MARK.search(found if isinstance(found, str) else repr(found))
    return int(seen[1]) if seen else None
