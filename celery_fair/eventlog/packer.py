"""Packing: what a host has sealed in an hour, in one compressed file instead of many small ones.

A process seals a file a minute, so that its log can be read soon; to open each of them takes a
reader longer than to read it. So the hour's files are put together when it is long over:

1. their lines are written to a file whose name readers do not look at (``_packing-…``), and forced
   to the disk;
2. it is renamed: now every line is there twice, which readers know by the records' numbers;
3. the files are deleted.

Whoever is killed between two of these has lost nothing. What is left of the first is removed by the
next who packs; after the second the files are only deleted, as the pack's name tells what is in it:
a digest of names and sizes. By the same digest a reader who has read all of the files knows that
the pack has nothing new (see `celery_fair.pipeline.ingest`). A file with a torn line stays.
"""

import gzip
import hashlib
import json
import os
import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from time import time
from typing import NamedTuple

from celery_fair.eventlog.log_file import FileName, force, locked

HOUR = 3600
PACKED = ".pack.jsonl.gz"
DIGITS = 16
"""Of a digest, in hexadecimal."""

_REST = 600.0
"""Seconds for which a file must have been left alone: a reader may be about to read it."""

_MOST = 256 << 20
"""Bytes of lines in a pack, at the most; nobody can read a compressed file from the middle."""

_TEMPORARY = "_packing-"
_LEVEL = 6
_CHUNK = 1 << 20


class _Member(NamedTuple):
    """A sealed file; in the order of names."""

    name: str
    size: int
    path: Path


def pack(folder: Path) -> int:
    """Pack what a host's folder has of hours that are over; return how many files it was."""
    with suppress(OSError), locked(folder):
        for left in folder.glob(f"{_TEMPORARY}*"):
            left.unlink()
        return sum(_pack(folder, hour, members) for hour, members in _ripe(folder))
    return 0


def digest(files: Sequence[tuple[str, int]]) -> str:
    """Return what names a pack of files with such names and sizes."""
    text = ",".join(sorted(f"{name} {size}" for name, size in files))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _ripe(folder: Path) -> Iterator[tuple[int, list[_Member]]]:
    """Yield hours and their files, in parts that are not too large."""
    hours = defaultdict(list)
    for path in folder.glob("*.jsonl"):
        name = None if path.name.startswith("_") else FileName.parse(path.name)
        if name is not None:
            stat = path.stat()
            hour = name.since // HOUR * HOUR
            if time() - max(stat.st_mtime, hour + HOUR) > _REST and _is_whole(path):
                hours[hour].append(_Member(path.name, stat.st_size, path))
    for hour, members in sorted(hours.items()):
        part: list[_Member] = []
        for member in sorted(members):
            if part and sum(each.size for each in part) + member.size > _MOST:
                yield hour, part
                part = []
            part.append(member)
        yield hour, part


def _pack(folder: Path, hour: int, members: list[_Member]) -> int:
    name = f"{hour}-{digest([(member.name, member.size) for member in members])}{PACKED}"
    if not (folder / name).exists():
        if shutil.disk_usage(folder).free < sum(member.size for member in members):
            return 0  # who writes to the log needs it more
        temporary = folder / f"{_TEMPORARY}{name}"
        with temporary.open("wb") as file:
            with gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as packed:
                for member in members:
                    _copy(member.path, packed)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(folder / name)
    force(folder)
    for member in members:
        with suppress(OSError):
            member.path.unlink()
    return len(members)


def _copy(path: Path, packed: gzip.GzipFile) -> None:
    with path.open("rb") as file:
        shutil.copyfileobj(file, packed, _CHUNK)


def _is_whole(path: Path) -> bool:
    """Whether each line is an object: of one that is none, its file's name says whose it is."""
    try:
        with path.open("rb") as file:
            return all(line.endswith(b"\n") and isinstance(json.loads(line), dict) for line in file)
    except (ValueError, RecursionError):
        return False
