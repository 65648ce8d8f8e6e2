"""Addresses of logs and warehouses: paths of this machine, and URIs of others."""

import re
from pathlib import Path

from celery_fair.pipeline.errors import PipelineError

__all__ = ["is_remote", "local_path", "refuse_secrets", "scheme_of"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_FILE = re.compile(r"file:(?://(?:localhost)?(?=/))?(?=/(?!/))", re.IGNORECASE)

_SECRET = re.compile(
    r"^(?:(?:s3[an]?|gs|abfss?|wasbs?|oss|cos|obs):/+[^@]*:[^@]*@"
    r"|[^:]+:/+[^/@]*:(?!\d{1,5}/)[^@]*@)"
    r"|[?&][\w-]*(?:sig|signature|token|password)=",
    re.IGNORECASE,
)
"""A user and what may have any sign in it, such as the slashes of a key of AWS, and is no port, of
which stores of objects have none; or a query."""


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


def refuse_secrets(address: str) -> None:
    """See to it that an address can be told, as it is with each file.

    Raises:
        PipelineError: it has a password or a signature in it.
    """
    if is_remote(address) and _SECRET.search(address):
        raise PipelineError(
            f"an address of {scheme_of(address)} has a password or a signature in it, which would"
            " be told with each file: leave it out, and give it by --conf spark.hadoop.…, or by one"
            " of Hadoop's credential providers"
        )
