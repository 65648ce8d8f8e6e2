"""The warehouse's folder: its files, and who holds which of its folders.

It may be on any file system that is mounted under one path on each machine that reads or writes it,
and has renames and locks. Whoever holds folders keeps a file locked that names them. The lock ends
with the process, however that ends: a file that can be locked was left. Where it cannot be told, it
counts as held.
"""

import errno
import glob
import json
import os
import shutil
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from functools import partial
from pathlib import Path
from typing import NamedTuple

from celery_fair.pipeline.storage.whole_file import whole_file

_HELD = ".held-"
"""How the names of files begin by which somebody holds folders."""

SCRATCH = ".scratch-"
"""How the names begin of what is for a while."""


class Held(NamedTuple):
    """What may not be removed.

    Attributes:
        folders: those of versions that are being read, relative to the warehouse.
        marks: those of runs that are under way; all that they write ends with theirs.
    """

    folders: set[str]
    marks: set[str]


class Hold:
    """Holds folders until it is released, or its owner is gone.

    Arguments:
        end: ends it.
    """

    def __init__(self, end: Callable[[], None] = lambda: None) -> None:
        self.release = weakref.finalize(self, end)


class Store:
    """A folder. Names are relative to it, with slashes.

    Arguments:
        root: its path, the same for driver and executors.

    Raises:
        OSError: whatever cannot be done with a file.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()

    def address(self, name: str = "") -> str:
        """Return how Spark, on every machine, names something; it is no pattern."""
        # Without the scheme it would be a path of Hadoop's default file system.
        return f"file:{self.root / name}"

    def names(self, pattern: str) -> list[str]:
        """Return the names that fit a pattern."""
        # Others may just be removing their own, which Path.glob of Python 3.11 does not expect.
        return glob.glob(pattern, root_dir=self.root, include_hidden=True)  # noqa: PTH207

    def put(self, name: str, text: str) -> bool:
        """Write a file if there is none; others see it whole or not at all. Return whether it is.

        Of two that do so at once one does.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        try:
            with whole_file(self.root / name, new=True) as file:
                file.write(text)
        except FileExistsError:
            return False
        return True

    def changed(self, name: str) -> float:
        """Return when a file was written, in seconds since 1970."""
        return (self.root / name).stat().st_mtime

    def size(self, name: str) -> int:
        """Return how many bytes a folder has of Parquet."""
        return sum(path.stat().st_size for path in (self.root / name).rglob("*.parquet"))

    def move(self, name: str, target: str) -> None:
        """Give a folder, that nobody else uses, another name."""
        path = self.root / target
        path.parent.mkdir(exist_ok=True)
        (self.root / name).rename(path)

    def remove(self, name: str) -> None:
        """Remove a file, or a folder and all in it, as far as that can be done."""
        with suppress(OSError):
            (self.root / name).unlink()
            return
        shutil.rmtree(self.root / name, ignore_errors=True)

    def settle(self, names: Iterable[str]) -> None:
        """See to it that folders of a table outlast a power loss."""
        # Spark does not. What is empty then is no error to it, but no rows.
        for name in names:
            folder = self.root / name
            with suppress(FileNotFoundError):  # of a run that was overtaken, as it will be told
                for path in (*folder.rglob("*"), folder, folder.parent):
                    _to_disk(path)

    def hold(self, mark: str, folders: Iterable[str]) -> Hold:
        """Hold folders, and all whose names end with the mark."""
        self.root.mkdir(parents=True, exist_ok=True)
        path = self.root / f"{_HELD}{mark}"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        hold = Hold(partial(_release, fd, path))
        text = json.dumps(sorted(folders)).encode()
        try:
            flock(fd, LOCK_EX | LOCK_NB)
            written = os.write(fd, text)
        except OSError:
            hold.release()
            raise
        if written < len(text):  # half of the folders would be worse than none
            hold.release()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return hold

    def held(self) -> Held | None:
        """Return what is held, and remove what those left who are gone; None if it is not known."""
        found = Held(set(), set())
        for path in self.root.glob(f"{_HELD}*"):
            if _is_left(path):
                path.unlink(missing_ok=True)
                continue
            found.marks.add(path.name.removeprefix(_HELD))
            try:
                found.folders.update(json.loads(path.read_text()))
            except FileNotFoundError:  # released just now
                continue
            except (OSError, ValueError):  # another user's, or made just now
                return None
        return found


def _to_disk(path: Path) -> None:
    """Wait until a file, or which files a folder has, is on the disk.

    Raises:
        OSError: it cannot be written there.
    """
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _release(fd: int, path: Path) -> None:
    path.unlink(missing_ok=True)
    os.close(fd)


def _is_left(path: Path) -> bool:
    try:
        with path.open("r+") as file:
            flock(file, LOCK_EX | LOCK_NB)
    except OSError:
        return False
    return True
