"""The file of passwords, for each name a line ``name:scrypt-15-8-3:salt:hash``.

A password is hashed by scrypt with the parameters that OWASP's cheat sheet names for passwords
(N = 2^15, r = 8, p = 3): a guess takes 32 MiB, and some tenths of a second. A line says its own.
``fair web password`` prints one.
"""

import hmac
import re
from hashlib import scrypt, sha256
from secrets import token_bytes
from typing import NamedTuple

_LINE = re.compile(r"([^:]+):scrypt-(\d{1,2})-(\d{1,2})-(\d{1,2}):([0-9a-f]+):([0-9a-f]+)")


class Cost(NamedTuple):
    """What a guess costs: N as a power of two, r, p."""

    log_n: int = 15
    r: int = 8
    p: int = 3

    def hash(self, password: str, salt: bytes) -> bytes:
        """Return the hash of a password.

        Raises:
            ValueError: it costs more memory than a quarter of a gigabyte.
        """
        n, most = 2**self.log_n, 2**28
        return scrypt(password.encode(), salt=salt, n=n, r=self.r, p=self.p, maxmem=most, dklen=32)


class _Known(NamedTuple):
    cost: Cost
    salt: bytes
    hash: bytes


class Passwords:
    """Names and hashes.

    Arguments:
        lines: of the file; empty ones and those that begin with # are passed over.

    Raises:
        ValueError: for a line of another form, and for none.
    """

    def __init__(self, lines: list[str]) -> None:
        self._key = token_bytes(32)
        self._known: dict[str, _Known] = {}
        for number, line in enumerate(lines, start=1):
            if line.strip() and not line.startswith("#"):
                name, known = _parsed(number, line.strip())
                self._known[name] = known
        if not self._known:
            raise ValueError(
                "there is no name in it; `celery -A … fair web password NAME` writes a line"
            )

    def verify(self, name: str, password: str) -> bool:
        """Whether it is the name's password; takes as long for a name that is not there."""
        known = self._known.get(name)
        cost, salt, hashed = known or next(iter(self._known.values()))
        return hmac.compare_digest(cost.hash(password, salt), hashed) and known is not None

    def digest(self, name: str, password: str) -> bytes:
        """Return what these are remembered by in this process."""
        return hmac.digest(self._key, f"{name}\0{password}".encode(), sha256)


def line_for(name: str, password: str, cost: Cost = Cost()) -> str:  # noqa: B008 - of constants
    """Return a line of the file.

    Raises:
        ValueError: the name cannot stand in one.
    """
    if not name or ":" in name or not name.isprintable() or name != name.strip() or name[0] == "#":
        raise ValueError(f"{name!r} is no name for it: no colon, no # before it, and printable")
    salt = token_bytes(16)
    return (
        f"{name}:scrypt-{'-'.join(map(str, cost))}:{salt.hex()}:{cost.hash(password, salt).hex()}"
    )


def _parsed(number: int, line: str) -> tuple[str, _Known]:
    found = _LINE.fullmatch(line)
    try:
        if found is not None:
            name, *cost, salt, hashed = found.groups()
            known = _Known(Cost(*map(int, cost)), bytes.fromhex(salt), bytes.fromhex(hashed))
            known.cost.hash("", known.salt)
            return name, known
    except ValueError:  # half of a byte, or a cost that cannot be
        pass
    raise ValueError(
        f"line {number} is not name:scrypt-15-8-3:salt:hash, as `celery -A … fair web password"
        " NAME` writes it"
    )
