"""How a row of a table by key is called, for a reader."""

from collections.abc import Mapping
from typing import Any


def named(row: Mapping[str, Any]) -> str:
    """Return whose it is: a tenant's, its part's, of those without a key, or of all others."""
    if row["tenant"] is None:
        return f"({row['keys']:,} others)"
    return "/".join(filter(None, (row["tenant"], row.get("part")))) or "(no key)"
