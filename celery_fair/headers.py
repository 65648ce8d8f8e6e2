"""Headers that this library puts on messages; all begin with `PREFIX`."""

__all__ = ["PREFIX", "PUBLISHED", "STRICT"]

PREFIX = "x-fair-"

PUBLISHED = "x-fair-published"
"""When a message was published, in seconds since 1970."""

STRICT = "x-fair-strict"
"""Of a message that may have started, or may start, without a claim in the ledger."""
