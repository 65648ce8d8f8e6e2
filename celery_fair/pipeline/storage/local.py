"""A folder of this machine: paths, renames and locks; no session is needed.

Whoever holds folders keeps a file locked that names them. The lock ends with the process, however
that ends: a file that can be locked was left. Where it cannot be told, it counts as held.
"""

import errno
import glob
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from functools import partial
from pathlib import Path

from celery_fair.pipeline.log_files import log_files
from celery_fair.pipeline.storage.address import local_path
from celery_fair.pipeline.storage.store import HELD, Held, Hold
from celery_fair.pipeline.whole_file import whole_file

__all__ = ["LocalStore"]


class LocalStore:
    """See `celery_fair.pipeline.storage.store.Store`.

    Arguments:
        root: a folder that driver and executors see under one path.
    """

    in_doubt = False

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()

    def address(self, name: str = "") -> str:
        # Without the scheme it would be a path of Hadoop's default file system.
        return f"file:{self.root / name}"

    def below(self) -> Iterator[str]:
        return map(str, log_files(self.root, "*"))

    def names(self, pattern: str) -> list[str]:
        # Others may just be removing their own, which Path.glob of Python 3.11 does not expect.
        return glob.glob(pattern, root_dir=self.root, include_hidden=True)  # noqa: PTH207

    def open(self, address: str) -> bytes:
        return local_path(address).read_bytes()

    def put(self, name: str, content: bytes, new: bool = False) -> bool:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not new:
            path.write_bytes(content)
            return True
        try:
            with whole_file(path, new=True) as file:
                file.write(content.decode())
        except FileExistsError:
            return False
        return True

    def is_folder(self, name: str = "") -> bool:
        return (self.root / name).is_dir()

    def changed(self, name: str) -> float:
        return (self.root / name).stat().st_mtime

    def size(self, name: str) -> int:
        return sum(path.stat().st_size for path in (self.root / name).rglob("*.parquet"))

    def move(self, name: str, target: str) -> None:
        path = self.root / target
        path.parent.mkdir(exist_ok=True)
        (self.root / name).rename(path)

    def remove(self, name: str) -> None:
        with suppress(OSError):
            (self.root / name).unlink()
            return
        shutil.rmtree(self.root / name, ignore_errors=True)

    def settle(self, names: Iterable[str]) -> None:
        # Spark does not. What is empty then is no error to it, but no rows.
        for name in names:
            folder = self.root / name
            with suppress(FileNotFoundError):  # of a run that was overtaken, as it will be told
                for path in (*folder.rglob("*"), folder, folder.parent):
                    _to_disk(path)

    def check(self) -> None:
        """What cannot be written here is told when it is tried."""

    def hold(self, mark: str, folders: Iterable[str]) -> Hold:
        self.root.mkdir(parents=True, exist_ok=True)
        path = self.root / f"{HELD}{mark}"
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

    def held(self, now: float = 0.0) -> Held | None:
        del now
        found = Held(set(), set())
        for path in self.root.glob(f"{HELD}*"):
            if _is_left(path):
                path.unlink(missing_ok=True)
                continue
            found.marks.add(path.name.removeprefix(HELD))
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
