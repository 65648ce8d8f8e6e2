"""Which folders of a warehouse on this machine somebody reads or writes: nobody removes those.

Whoever does so for longer than a moment leaves a file in the warehouse, ``.held-<mark>``, that says
which folders these are, and keeps it locked (`celery_fair.pipeline.owned`). It is made, and looked
for, while nobody publishes.
"""

import errno
import json
import os
import weakref
from collections.abc import Iterable
from contextlib import suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path

from celery_fair.pipeline.owned import is_left
from celery_fair.pipeline.storage.store import Held

__all__ = ["Hold", "held"]

_NAME = ".held-"


class Hold:
    """Holds folders until it is released, or gone.

    Arguments:
        mark: whose it is.

    Raises:
        OSError: nothing can be written there, or locked.
    """

    def __init__(self, root: Path, mark: str, folders: Iterable[str]) -> None:
        path = root / f"{_NAME}{mark}"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        self._end = weakref.finalize(self, _released, fd, path)
        try:
            flock(fd, LOCK_EX | LOCK_NB)
            _write(fd, json.dumps(sorted(folders)).encode())
        except OSError:
            self.release()
            raise

    def check(self) -> None:
        """It holds until the process ends."""

    def release(self) -> None:
        """Hold nothing any more."""
        self._end()


def _write(fd: int, text: bytes) -> None:
    if os.write(fd, text) < len(text):  # half of the folders would be worse than none
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _released(fd: int, path: Path) -> None:
    path.unlink(missing_ok=True)
    os.close(fd)


def held(root: Path) -> Held:
    """Return what is held in a warehouse, and remove what those left who are gone."""
    found = Held(set(), set())
    for path in root.glob(f"{_NAME}*"):
        if is_left(path):
            path.unlink(missing_ok=True)
            continue
        found.marks.add(path.name.removeprefix(_NAME))
        with suppress(OSError, ValueError):  # released just now
            found.folders.update(json.loads(path.read_text()))
    return found
