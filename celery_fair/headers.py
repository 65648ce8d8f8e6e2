"""Headers that this library puts on messages."""

from typing import Any

PREFIX = "x-fair-"
"""Of those that travel; `TOKEN` is put on in the worker."""

CLAIM = "x-fair-claim"
"""Of a dead letter: by what its work is claimed in the ledger."""

FAIR_KEY = "x-fair-key"
"""Whose a message is, as `celery_fair.core.keys.fair_key` writes it: a tenant's, or its part's."""

KEY = "x-fair-partition-key"
"""The key by which a message was put into its partition, as text."""

LEDGER = "x-fair-ledger"
"""In which ledger a message's work is to be claimed: the fingerprint of the publisher's."""

PUBLISHED = "x-fair-published"
"""When a message was published, in seconds since 1970."""

STRICT = "x-fair-strict"
"""Of what may start, or has, without a claim: true, or the attempt to claim that had no answer."""

TOKEN = "fair_token"  # noqa: S105 - a fencing token is no secret
"""By which number of a grant a partition's task runs: ``self.request.fair_token``."""

UNDECODED = "x-fair-undecoded"
"""In the place of a message's properties: why they cannot be decoded."""


def time_of(header: Any) -> float | None:
    """Return the time that a header names, None if it names none: anybody may have written it."""
    known = isinstance(header, int | float) and not isinstance(header, bool) and abs(header) < 1e12
    return float(header) if known else None
