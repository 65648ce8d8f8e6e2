"""The file of passwords: for each name a line ``name:scrypt:salt:hash``, in hexadecimal.

A password is hashed by scrypt with the parameters that OWASP's cheat sheet names for passwords
(N = 2^15, r = 8, p = 3): a guess takes 32 MiB, and some tenths of a second.
"""

import hmac
from hashlib import scrypt, sha256
from pathlib import Path
from secrets import token_bytes

__all__ = ["Passwords", "line_for"]

_COST = {"n": 2**15, "r": 8, "p": 3, "maxmem": 64 * 2**20, "dklen": 32}


class Passwords:
    """Names and hashes.

    Arguments:
        lines: of the file; empty ones and those that begin with # are passed over.

    Raises:
        ValueError: for a line of another form, and for none.
    """

    def __init__(self, lines: list[str]) -> None:
        self._key = token_bytes(32)
        self._hashes: dict[str, tuple[bytes, bytes]] = {}
        for number, line in enumerate(lines, start=1):
            if line.strip() and not line.startswith("#"):
                name, salt, hashed = _parsed(number, line.strip())
                self._hashes[name] = salt, hashed
        if not self._hashes:
            raise ValueError(
                "there is no name in it; `celery -A … fair web-password NAME` writes a line"
            )

    @classmethod
    def read(cls, path: Path) -> "Passwords":
        """Read a file.

        Raises:
            OSError: it cannot be read.
            ValueError: as the class.
        """
        return cls(path.read_text("utf-8").splitlines())

    def verify(self, name: str, password: str) -> bool:
        """Whether it is the name's password; takes as long for a name that is not there."""
        salt, hashed = self._hashes.get(name, (b"nobody", b""))
        return hmac.compare_digest(_hash(password, salt), hashed)

    def digest(self, name: str, password: str) -> bytes:
        """Return what these are remembered by in this process."""
        return hmac.digest(self._key, f"{name}\0{password}".encode(), sha256)


def line_for(name: str, password: str) -> str:
    """Return a line of the file.

    Raises:
        ValueError: the name cannot stand in one.
    """
    if not name or ":" in name or not name.isprintable() or name != name.strip() or name[0] == "#":
        raise ValueError(f"{name!r} is no name for it: no colon, no # before it, and printable")
    salt = token_bytes(16)
    return f"{name}:scrypt:{salt.hex()}:{_hash(password, salt).hex()}"


def _hash(password: str, salt: bytes) -> bytes:
    return scrypt(password.encode(), salt=salt, **_COST)


def _parsed(number: int, line: str) -> tuple[str, bytes, bytes]:
    fields = line.split(":")
    try:
        name, salt, hashed = fields[0], bytes.fromhex(fields[2]), bytes.fromhex(fields[3])
        well = fields[1] == "scrypt" and len(fields) == 4
    except (IndexError, ValueError):
        well = False
    if not well:
        raise ValueError(
            f"line {number} is not name:scrypt:salt:hash, as `celery -A … fair web-password NAME`"
            " writes it"
        )
    return name, salt, hashed
