"""Records that pass from many processes and threads to one reader: what, and when.

A record is one `write` of a few bytes on a descriptor opened with O_APPEND. So records never
interleave, their order is the order of the writes, and what a killed process wrote stays.
"""

import os
import struct
from pathlib import Path
from time import monotonic

__all__ = ["Record", "TraceReader", "TraceWriter"]

_RECORD = struct.Struct("<Id")

Record = tuple[int, float]
"""The number of a queue or of a message, and seconds of the machine's monotonic clock."""


class TraceWriter:
    """Appends records to a file."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, number: int) -> None:
        """Record that something happens to this one now."""
        os.write(self._file, _RECORD.pack(number, monotonic()))


class TraceReader:
    """Reads what was appended since it last looked."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read(self) -> list[Record]:
        """Return the new records, in the order of their writes."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            new = file.read()
        whole = len(new) - len(new) % _RECORD.size
        self._offset += whole
        return list(_RECORD.iter_unpack(new[:whole]))
