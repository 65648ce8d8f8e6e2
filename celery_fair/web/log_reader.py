"""What comes into the folder of an event log, line by line: bounded, and without Spark.

Files are known by their inode, as they are renamed when they are sealed; of each it is known how
far it was read. A pack that appears later has what was read before it was packed. The first time
the newest files are read, up to so many bytes, in the order of their names: so each process's
records come in theirs.
"""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from celery_fair.eventlog.log_file import OPEN
from celery_fair.eventlog.packer import PACKED
from celery_fair.pipeline.log_files import log_files

__all__ = ["LogReader"]

_CHUNK = 1 << 20
_MOST = 256 << 20
"""Bytes that are read in one pass, at the most."""

_SQUEEZED = 10
"""How many times larger a pack is when it is unpacked, about."""


class _File(NamedTuple):
    order: str
    """By host, and in time."""

    path: Path
    inode: tuple[int, int]
    size: int
    changed: float
    is_packed: bool


class LogReader:
    """Reads what is new at each pass.

    Arguments:
        folder: the log's.
        most: bytes that one pass reads; of more, the oldest are left out.

    Attributes:
        left_out: bytes that were.
    """

    def __init__(self, folder: Path, most: int = _MOST) -> None:
        self._folder = folder
        self._most = most
        self._read: dict[tuple[int, int], int] = {}
        self._has_read = False
        self.left_out = 0

    def chunks(self, since: float) -> Iterator[list[bytes]]:
        """Yield lines that were not there at the last pass, some at a time.

        Arguments:
            since: files that have not changed since then are left out; seconds since 1970.

        Raises:
            celery_fair.pipeline.errors.PipelineError: a folder cannot be read.
        """
        files, before, first = [*self._files(since)], self._read, not self._has_read
        self._read = {
            file.inode: before.get(file.inode, file.size if file.is_packed and not first else 0)
            for file in files
        }
        self._has_read = True
        for file in sorted(self._chosen(files)):
            yield from self._lines(file)

    def _files(self, since: float) -> Iterator[_File]:
        for path in log_files(self._folder, "*.jsonl*"):
            if not path.name.endswith((".jsonl", PACKED)):
                continue
            try:
                stat = path.stat()
            except OSError:  # sealed, or packed, just now
                continue
            if stat.st_mtime >= since:
                order = str(path.with_name(path.name.removeprefix(OPEN)))
                inode, is_packed = (stat.st_dev, stat.st_ino), path.name.endswith(PACKED)
                yield _File(order, path, inode, stat.st_size, stat.st_mtime, is_packed)

    def _chosen(self, files: list[_File]) -> Iterator[_File]:
        """Yield what is to be read: the newest, as much as is allowed."""
        left = self._most
        for file in sorted(files, key=lambda file: file.changed, reverse=True):
            size = max(0, file.size - self._read[file.inode])
            if file.is_packed:
                size *= _SQUEEZED
            taken = size if size <= left else 0 if file.is_packed else left
            left = max(0, left - size)
            self.left_out += size - taken
            self._read[file.inode] = file.size if file.is_packed else file.size - taken
            if taken:
                yield file

    def _lines(self, file: _File) -> Iterator[list[bytes]]:
        rest = b""
        try:
            with file.path.open("rb") as plain:
                if not file.is_packed:
                    plain.seek(self._read[file.inode])
                source = cast(BinaryIO, gzip.GzipFile(fileobj=plain) if file.is_packed else plain)
                while chunk := source.read(_CHUNK):
                    *lines, rest = (rest + chunk).split(b"\n")
                    if not file.is_packed:
                        self._read[file.inode] = plain.tell() - len(rest)
                    yield lines
                    if len(rest) > _CHUNK:  # no record is as long
                        rest = b""
        except (OSError, EOFError, zlib.error):  # gone, or a pack that is none
            pass
