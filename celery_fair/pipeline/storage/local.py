"""A folder of this machine: paths, renames and locks; no session is needed."""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, flock
from pathlib import Path

from celery_fair.pipeline.errors import PipelineError
from celery_fair.pipeline.holds import Hold, held
from celery_fair.pipeline.log_files import log_files
from celery_fair.pipeline.storage.store import Held
from celery_fair.pipeline.whole_file import whole_file

__all__ = ["POINTER", "SCRATCH", "LocalStore"]

POINTER = "current.json"
SCRATCH = ".scratch-"
_LOCK = ".publishing"


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

    def files(self, pattern: str) -> Iterator[str]:
        return (str(path) for path in log_files(self.root, pattern))

    def has_any(self, patterns: Iterable[str]) -> bool:
        return any(next(log_files(self.root, pattern), None) for pattern in patterns)

    def read(self, address: str) -> bytes:
        return Path(address).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        (self.root / name).write_bytes(content)

    def is_folder(self, name: str = "") -> bool:
        return (self.root / name).is_dir()

    def make(self, name: str = "") -> None:
        (self.root / name).mkdir(parents=True, exist_ok=True)

    def move(self, name: str, target: str) -> None:
        path = self.root / target
        path.parent.mkdir(exist_ok=True)
        (self.root / name).rename(path)

    def remove(self, name: str) -> None:
        shutil.rmtree(self.root / name, ignore_errors=True)

    def size(self, name: str) -> int:
        return sum(path.stat().st_size for path in (self.root / name).rglob("*.parquet"))

    def written(self) -> list[str]:
        found = list(self.root.glob(f"{SCRATCH}*"))
        for table in self.root.glob("*"):
            # Another run may just be removing its own, and glob of Python 3.11 does not expect it.
            with suppress(FileNotFoundError, NotADirectoryError):
                found += [path for path in table.iterdir() if path.name.startswith("run=")]
        return [path.relative_to(self.root).as_posix() for path in found]

    def check(self) -> None:
        """What cannot be written here is told when it is tried."""

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No other run publishes meanwhile; who is killed leaves it."""
        with (self.root / _LOCK).open("w") as file:
            flock(file, LOCK_EX)
            yield

    def settle(self, names: Iterable[str]) -> None:
        # Spark does not. What is empty then is no error to it, but no rows.
        for name in names:
            folder = self.root / name
            with suppress(FileNotFoundError):  # of a run that was overtaken, as it will be told
                for path in (*folder.rglob("*"), folder, folder.parent):
                    _to_disk(path)

    def present(self) -> str | None:
        if newest := max(self.root.glob("current-*.json"), default=None):
            raise PipelineError(
                f"{self.root} is a warehouse of another file system ({newest.name} is its pointer):"
                f" name it by the URI by which it was written; if it is a copy of that, rename"
                f" {newest.name} to {POINTER}, and remove the others of its kind"
            )
        try:
            return (self.root / POINTER).read_text()
        except FileNotFoundError:
            return None

    def point(self, version: int, text: str) -> bool:
        """Nobody else does meanwhile: it is called `alone`."""
        del version
        with whole_file(self.root / POINTER) as file:
            file.write(text)
        return True

    def hold(self, mark: str, folders: Iterable[str]) -> Hold:
        return Hold(self.root, mark, folders)

    def held(self) -> Held:
        return held(self.root)


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
