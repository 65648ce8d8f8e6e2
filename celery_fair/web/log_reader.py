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
    path: Path
    inode: tuple[int, int]
    size: int
    changed: float

    @property
    def order(self) -> str:
        """By host, and in time."""
        return str(self.path.with_name(self.path.name.removeprefix(OPEN)))

    @property
    def is_packed(self) -> bool:
        return self.path.name.endswith(PACKED)


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
        self._read: dict[tuple[int, int], int] | None = None
        self.left_out = 0

    def chunks(self, since: float) -> Iterator[list[bytes]]:
        """Yield lines that were not there at the last pass, some at a time.

        Arguments:
            since: files that have not changed since then are left out; seconds since 1970.

        Raises:
            celery_fair.pipeline.errors.PipelineError: a folder cannot be read.
        """
        first = self._read is None
        before = self._read or {}
        files = sorted(self._files(since), key=lambda file: file.order)
        self._read = {file.inode: before.get(file.inode, 0) for file in files}
        for file, begin in self._chosen(files, first):
            yield from self._lines(file, begin)

    def _files(self, since: float) -> Iterator[_File]:
        for path in log_files(self._folder, "*.jsonl*"):
            if not path.name.endswith((".jsonl", PACKED)):
                continue
            try:
                stat = path.stat()
            except OSError:  # sealed, or packed, just now
                continue
            if stat.st_mtime >= since:
                yield _File(path, (stat.st_dev, stat.st_ino), stat.st_size, stat.st_mtime)

    def _chosen(self, files: list[_File], first: bool) -> list[tuple[_File, int]]:
        """Return what is to be read, and from where on: the newest, as much as is allowed."""
        left, chosen = self._most, []
        assert self._read is not None
        for file in sorted(files, key=lambda file: file.changed, reverse=True):
            begin = self._read[file.inode]
            size = file.size * _SQUEEZED if file.is_packed else file.size - begin
            if size <= 0 or (file.is_packed and (begin or not first)):
                self._read[file.inode] = file.size
            elif size <= left:
                chosen.append((file, begin))
                left -= size
            else:
                self.left_out += size - (0 if file.is_packed else left)
                self._read[file.inode] = file.size
                if not file.is_packed and left:
                    chosen.append((file, file.size - left))
                left = 0
        return sorted(chosen, key=lambda each: each[0].order)

    def _lines(self, file: _File, begin: int) -> Iterator[list[bytes]]:
        assert self._read is not None
        at, rest = begin, b""
        try:
            with file.path.open("rb") as plain:
                plain.seek(begin)
                source = cast(BinaryIO, gzip.GzipFile(fileobj=plain) if file.is_packed else plain)
                while chunk := source.read(_CHUNK):
                    *lines, rest = (rest + chunk).split(b"\n")
                    at += len(chunk)
                    self._read[file.inode] = at - len(rest)
                    yield lines
                    if len(rest) > _CHUNK:  # no record is as long
                        rest = b""
        except (OSError, EOFError, zlib.error):  # gone, or a pack that is none
            pass
        if file.is_packed:
            self._read[file.inode] = file.size
