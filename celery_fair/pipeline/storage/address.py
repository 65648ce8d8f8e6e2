"""Addresses of logs and warehouses: paths of this machine, and URIs of others."""

import re
from pathlib import Path

__all__ = ["is_remote", "local_path", "scheme_of"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_FILE = re.compile(r"file:(?://(?:localhost)?(?=/))?(?=/(?!/))", re.IGNORECASE)


def scheme_of(address: str) -> str:
    """Return the scheme of an address, in small letters; "file" of a path without one."""
    found = _SCHEME.match(address)
    return found[1].lower() if found else "file"


def is_remote(address: str) -> bool:
    """Whether an address is none of this machine's file system, as that of a file of another."""
    found = _SCHEME.match(address)
    return found is not None and not _FILE.match(address)


def local_path(address: str) -> Path:
    """Return the path of an address of this machine, such as ``file:///var/log``."""
    return Path(_FILE.sub("", address, count=1))
