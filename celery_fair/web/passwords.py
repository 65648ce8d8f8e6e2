"""The file of passwords, for each name a line ``name:hash``.

``fair web password`` makes them: 128 random bits, which nobody finds by guessing, however fast
their hash is (SHA-256).
"""

import re
from collections.abc import Iterable
from hashlib import sha256
from secrets import token_urlsafe

_LINE = re.compile(r"([^:]+):([0-9a-f]{64})")


def hash_of(password: str) -> str:
    """Return what the file has of a password."""
    return sha256(password.encode()).hexdigest()


def hashes(lines: Iterable[str]) -> dict[str, str]:
    """Return hashes by name; empty lines and those that begin with # are passed over.

    Raises:
        ValueError: for a line of another form, and for none.
    """
    known: dict[str, str] = {}
    for number, line in enumerate(map(str.strip, lines), start=1):
        if line and not line.startswith("#"):
            found = _LINE.fullmatch(line)
            if found is None:
                raise ValueError(
                    f"line {number} is not name:hash, as `celery -A … fair web password NAME`"
                    " writes it"
                )
            known[found[1]] = found[2]
    if not known:
        raise ValueError(
            "there is no name in it; `celery -A … fair web password NAME` writes a line"
        )
    return known


def new_password(name: str) -> tuple[str, str]:
    """Return a password, and its line in the file.

    Raises:
        ValueError: the name cannot stand in one.
    """
    if not name or ":" in name or not name.isprintable() or name != name.strip() or name[0] == "#":
        raise ValueError(f"{name!r} is no name for it: no colon, no # before it, and printable")
    password = token_urlsafe(16)
    return password, f"{name}:{hash_of(password)}"
