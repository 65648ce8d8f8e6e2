"""One file of the log: written by one process, and sealed by renaming it.

While it is open, its name begins with ``_open-`` and its owner holds a lock on it, which ends with
the process, however that ends: anybody who gets the lock knows that the owner is gone.
"""

import fcntl
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from time import time, time_ns
from typing import NamedTuple

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""Linux's: random, another one for each start of the kernel; the same in all its containers."""

_KERNEL, _RANDOM = 4, 8  # characters


def new_name() -> str:
    """Return what no other process is called: its kernel's start, and random characters."""
    return _kernel(_BOOT_ID) + secrets.token_hex(_RANDOM // 2)


def ran_elsewhere(name: str) -> bool:
    """Whether a process of this name ran before this start of this kernel, or on another one.

    False where that is not known, as the system has no such id.
    """
    return not name.startswith(_kernel(_BOOT_ID))


@cache
def _kernel(boot_id: Path) -> str:
    try:
        found = boot_id.read_text().strip()
    except OSError:  # not Linux, or not shown
        found = ""
    return sha256(found.encode()).hexdigest()[:_KERNEL]


OPEN = "_open-"
"""Before the name of a file that is being written. It is locked before there is anything in it."""

_BEHIND = stat.S_IXUSR
"""A file's permission that shows what cannot be written, for that takes no room on a full disk."""


class LogFile:
    """A new file in a folder, which is made when it is missing.

    Arguments:
        name: of the file when it is sealed.
        lasting: whether it is there after a power loss, whatever is in it then.

    Attributes:
        since: when it was made, in microseconds since 1970.
        size: bytes in it.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, folder: Path, name: str, lasting: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{OPEN}{name}"
        self._sealed = folder / name
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(self.path, flags, 0o640)
        with suppress(OSError):  # a file system without locks: nobody will call it dead
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if lasting:
            with suppress(OSError):  # not every file system can
                force(folder)
        self.since = time_ns() // 1000
        self.size = 0
        self._torn = self._behind = False

    def append(self, line: bytes, sync: bool = False) -> None:
        """Write one line, in one call.

        Raises:
            OSError: it is not written, or not all of it.
        """
        if self._torn:
            line = b"\n" + line
        written = os.write(self._fd, line)
        self.size += written
        self._torn = written < len(line)
        if self._torn:
            raise OSError(f"{written} of {len(line)} bytes were written to {self.path}")
        if self._behind:
            self._show(behind=False)  # its number tells what is missing before it
        if sync:
            os.fsync(self._fd)

    def fall_behind(self) -> None:
        """Show that a record was lost after the last one here, until another is appended."""
        if not self._behind:
            self._show(behind=True)

    def _show(self, behind: bool) -> None:
        self._behind = behind
        with suppress(OSError):
            mode = stat.S_IMODE(os.fstat(self._fd).st_mode)
            os.fchmod(self._fd, mode | _BEHIND if behind else mode & ~_BEHIND)

    @property
    def is_there(self) -> bool:
        """Whether the file still is where it was made; another thread may seal it just now."""
        return self.path.exists() or self._sealed.exists()

    def seal(self, sync: bool = False) -> None:
        """Write no more; the file has its lasting name from now on, or is gone if it is empty."""
        with suppress(OSError):
            if sync:
                os.fsync(self._fd)
            if self.size:
                self.path.rename(self._sealed)
            else:
                self.path.unlink()
        os.close(self._fd)

    def forget(self) -> None:
        """In a forked child: the file is its parent's."""
        os.close(self._fd)


def is_behind(path: Path) -> bool:
    """Whether a record was lost after a file's last one, as its owner has shown."""
    return bool(path.stat().st_mode & _BEHIND)


def force(folder: Path) -> None:
    """Have a folder's entries on the disk, so that new names are there after a power loss, too."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def locked(path: Path, flags: int = os.O_RDONLY) -> Iterator[int]:
    """Yield a descriptor that holds the lock on a file or folder.

    Raises:
        OSError: somebody else holds it, or nobody can.
    """
    fd = os.open(path, flags | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield fd
    finally:
        os.close(fd)


class FileName(NamedTuple):
    """What a file's name says.

    Attributes:
        since: when the file was made, in whole seconds since 1970.
        node: the process's node, without characters that do not belong in a file's name.
        number: 0, 1, 2, … within the process.
    """

    since: int
    node: str
    pid: int
    boot: str
    number: int

    @classmethod
    def parse(cls, name: str) -> "FileName | None":
        """Return what a name says, be the file sealed or open; None if it is of another kind."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        since, node, pid, boot, number = found.groups()
        return cls(int(since), node, int(pid), boot, int(number))

    def __str__(self) -> str:
        return f"{self.since}-{self.node}-{self.pid}-{self.boot}-{self.number}.jsonl"


_NAME = re.compile(rf"(?:{OPEN})?([0-9]+)-(.*)-([0-9]+)-([^-]+)-([0-9]+)\.jsonl")


def sealed_name(node: str, pid: int, boot: str, number: int) -> str:
    """Return the name of a process's file, the first of which is number 0."""
    return str(FileName(int(time()), _plain(node), pid, boot, number))


def _plain(text: str) -> str:
    return "".join(c if c.isalnum() or c in "@._" else "_" for c in text)
