"""Which files are below the folder of the logs, as Spark finds them, and its names for folders."""

import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from celery_fair.pipeline.errors import PipelineError

__all__ = ["log_files", "unglobbed"]

_GLOB = re.compile(r"([\\{}\[\]*?])")


def unglobbed(path: str) -> str:
    """Return a path that Spark reads as it is, and not as a pattern."""
    return _GLOB.sub(r"\\\1", path)


def log_files(logs: Path, pattern: str) -> Iterator[Path]:
    """Yield the files below a folder, also below folders that are links: Spark reads these, too.

    Raises:
        PipelineError: a folder cannot be read; so nobody knows whose logs are in it.
    """
    seen = set()
    for folder, folders, names in os.walk(logs, onerror=_unread, followlinks=True):
        stat = Path(folder).stat()
        if (stat.st_dev, stat.st_ino) in seen:  # a link to a folder above
            folders.clear()
            continue
        seen.add((stat.st_dev, stat.st_ino))
        yield from (Path(folder, name) for name in names if fnmatchcase(name, pattern))


def _unread(exc: OSError) -> None:
    if isinstance(exc, FileNotFoundError):  # it has been removed just now
        return
    raise PipelineError(
        f"{exc.filename} cannot be read ({exc.strerror}): whose logs are in it is not known, and so"
        " nothing can be proven; let this user read it, or take it away from here"
    ) from exc
