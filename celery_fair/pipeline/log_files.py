"""Which files are below the folder of the logs, as Spark finds them, and its names for folders."""

import os
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from celery_fair.pipeline.errors import PipelineError

_GLOB = re.compile(r"([\\{}\[\]*?])")


def unglobbed(path: str) -> str:
    """Return a path that Spark reads as it is, and not as a pattern."""
    return _GLOB.sub(r"\\\1", path)


def log_files(logs: Path, pattern: str) -> Iterator[Path]:
    """Yield the files below a folder whose names fit a pattern, as `files_below`.

    Raises:
        PipelineError: a folder cannot be read; so nobody knows whose logs are in it.
    """
    return (path for path in files_below(logs, _unread) if fnmatchcase(path.name, pattern))


def files_below(
    folder: Path, unread: Callable[[OSError], object] = lambda _: None
) -> Iterator[Path]:
    """Yield the files below a folder, also below folders that are links: Spark reads these, too.

    Arguments:
        unread: is told of what cannot be read.
    """
    seen = set()
    for place, folders, names in os.walk(folder, onerror=unread, followlinks=True):
        try:
            stat = Path(place).stat()
        except OSError as exc:
            unread(exc)
            continue
        if (stat.st_dev, stat.st_ino) in seen:  # a link to a folder above
            folders.clear()
            continue
        seen.add((stat.st_dev, stat.st_ino))
        yield from (Path(place, name) for name in names)


def _unread(exc: OSError) -> None:
    if isinstance(exc, FileNotFoundError):  # it has been removed just now
        return
    raise PipelineError(
        f"{exc.filename} cannot be read ({exc.strerror}): whose logs are in it is not known, and so"
        " nothing can be proven; let this user read it, or take it away from here"
    ) from exc
