"""Files that whoever writes them keeps locked: the lock ends with the process, however that ends.

So one that can be locked was left behind, by a process that was killed. Where files cannot be
locked, or are another user's, nobody can tell, and they count as owned.
"""

import os
from contextlib import suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import TextIO

__all__ = ["is_left", "owned"]


def owned(path: Path) -> TextIO:
    """Return an empty file to write UTF-8 text to, locked until it is closed.

    Raises:
        OSError: it cannot be written.
    """
    while True:
        file = path.open("a", encoding="utf-8")
        with suppress(OSError):
            flock(file, LOCK_EX)
        if _is_there(file, path):
            file.truncate(0)
            return file
        file.close()  # who looked just before it was locked has taken it for one that was left


def _is_there(file: TextIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def is_left(path: Path) -> bool:
    """Whether the owner of a file is gone."""
    try:
        with path.open("r+") as file:
            flock(file, LOCK_EX | LOCK_NB)
    except OSError:
        return False
    return True
