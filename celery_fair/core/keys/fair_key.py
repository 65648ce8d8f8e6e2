"""Whose a message is: a tenant's, or a part's of a tenant, written as one text.

A pair is written ``tenant/part``. In both a ``%`` is written ``%25`` and a ``/`` ``%2F``, as in a
URL (RFC 3986), so that no name can be taken for a pair.
"""

from hashlib import sha1
from typing import Any

LONGEST = 255
"""Bytes of a key, as it is written: AMQP's short string."""

_EXACT = 10**15
"""Redis has floats: below, they are exact."""


def written_key(key: Any) -> str:
    """Return a key as it is written in a message's header.

    Arguments:
        key: an integer, a text, or bytes that are a text in UTF-8; or a pair of such.

    Raises:
        TypeError: it is something else; a bool is no integer here.
        ValueError: it is empty, longer than `LONGEST`, or its bytes are no text.
    """
    if isinstance(key, tuple | list) and len(key) == 2:
        text = "/".join(_escaped(part, key) for part in key)
    else:
        text = _escaped(key, key)
    if len(text.encode()) > LONGEST:
        raise ValueError(
            f"a key has at most {LONGEST} bytes, not {len(text.encode())}: {key!r:.80}"
        )
    return text


def _escaped(part: Any, key: Any) -> str:
    if isinstance(part, bool) or not isinstance(part, int | str | bytes):
        raise TypeError(
            "a key is an integer, a text, bytes, or a pair of those (tenant, part), not"
            f" {type(part).__name__}: {key!r:.80}"
        )
    try:
        text = part.decode() if isinstance(part, bytes) else str(part)
        text.encode()
    except UnicodeError as exc:
        raise ValueError(f"a key must be a text, in UTF-8 if it is bytes: {exc}") from None
    if not text:
        raise ValueError(f"a key must not be empty: {key!r:.80}")
    return text.replace("%", "%25").replace("/", "%2F")


def read_key(header: Any) -> tuple[str, str]:
    """Return the tenant and the part that a header names, as they are written; anything is taken.

    What names nobody is the tenant ``""``'s. What is too long, or no text in Unicode, stands for
    itself by its SHA-1, in hexadecimal digits, as there is no other digest in Redis.
    """
    if isinstance(header, int) and not isinstance(header, bool) and abs(header) < _EXACT:
        header = str(header)
    if not isinstance(header, str):
        return "", ""
    try:
        raw = header.encode()
    except UnicodeError:  # half of a pair of surrogates
        return _digest(header.encode(errors="surrogatepass")), ""
    if len(raw) > LONGEST:
        return _digest(raw), ""
    tenant, _, part = header.partition("/")
    return tenant, part


def _digest(raw: bytes) -> str:
    return sha1(raw).hexdigest()  # noqa: S324 - no secret depends on it
