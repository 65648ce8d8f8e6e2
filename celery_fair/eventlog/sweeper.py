"""Sealing what dead processes have left, packing what is sealed, and keeping within the limit.

A process always has an open file, from its first record to its end: it makes the next before it
seals the last. So an open file without an owner shows that it has died. It may be empty; then it is
left alone for a minute, as its owner may be about to lock it. The record that says so goes into its
last file, after everything that it wrote. It has no number: the one that would be next may be that
of a record which was lost. It says which number was the last: a file before the last one may go
astray.

What a killed process has written is the system's to keep. Lost may be what was written before the
host went down, or on a host of which nothing is known here; a line that is torn shows that one was,
and so does the mark of a process that could not write any more. Such a log counts as one that a
record was dropped of, so that nothing is proved by its gaps.
"""

import json
import logging
import os
from contextlib import suppress
from errno import ENOSPC
from pathlib import Path
from time import time, time_ns
from typing import Any

from celery_fair.eventlog.log_file import OPEN, FileName, is_behind, locked, ran_elsewhere
from celery_fair.eventlog.packer import PACKED, pack
from celery_fair.eventlog.records import VERSION
from celery_fair.eventlog.writer import Policy, host_folder

logger = logging.getLogger(__name__)

_STALE = 3600.0
"""Seconds without a record after which another host's file without a lock is taken for dead: its
host may be gone, and its lock may not be visible from here."""

_MOMENT = 60.0
"""Seconds after which an empty file that is not locked yet will never be."""

_TAIL = 65536  # bytes that are read for the last record
_NEEDED = {"v": int, "node": str, "pid": int, "boot": str, "at": int}


def sweep(policy: Policy) -> int:
    """Seal the files of processes that are gone, and pack the hours before; return how many died.

    To each a last record is appended, which says so.
    """
    own = host_folder(policy.folder)
    found = [path for path in policy.folder.glob(f"*/{OPEN}*.jsonl") if _may_be_swept(path, own)]
    swept = sum(_seal(path, path.parent != own) for path in found)
    pack(own)
    _shrink(own, policy.limit)
    return swept


def _may_be_swept(path: Path, own: Path) -> bool:
    with suppress(OSError):
        found = path.stat()
        age = time() - found.st_mtime
        return age > _STALE or (path.parent == own and bool(found.st_size or age > _MOMENT))
    return False


def _seal(path: Path, foreign: bool) -> bool:
    """Do so if the owner is gone.

    Arguments:
        foreign: whether it is another host's.
    """
    try:
        with locked(path, os.O_WRONLY | os.O_APPEND) as fd:
            before, after = _neighbours(path)
            if not after:
                holder = path
                last, torn = _last_record(path)
                if last is None and before:
                    holder = before[-1]
                    last, _ = _last_record(holder)
                if last is not None:
                    behind = is_behind(path) or is_behind(holder)
                    lossy = torn or behind or foreign or ran_elsewhere(last["boot"])
                    line = json.dumps(_death(last, lossy), separators=(",", ":")).encode() + b"\n"
                    _append(fd, b"\n" + line if torn else line)
            if path.stat().st_size:
                path.rename(path.with_name(path.name.removeprefix(OPEN)))
            else:
                path.unlink()
    except OSError:  # somebody holds it, or was faster; or the disk is full
        return False
    return True


def _append(fd: int, line: bytes) -> None:
    if os.write(fd, line) < len(line):  # a part would be no record, and nobody would look again
        raise OSError(ENOSPC, "the disk is full")


def _neighbours(path: Path) -> tuple[list[Path], list[Path]]:
    """Return the files of the same process before and after one, in their order."""
    name = FileName.parse(path.name)
    if name is None:
        return [], []
    found = []
    for other in path.parent.glob(f"*-{name.pid}-{name.boot}-*.jsonl"):
        parsed = FileName.parse(other.name)
        if parsed is not None and (parsed.pid, parsed.boot) == (name.pid, name.boot):
            found.append((parsed.number, other))
    found.sort()
    before = [other for number, other in found if number < name.number]
    return before, [other for number, other in found if number > name.number]


def _last_record(path: Path) -> tuple[dict[str, Any] | None, bool]:
    """Return a file's last whole record, and whether it does not end with a line's end."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL))
        tail = file.read()
    for line in reversed(tail.splitlines()):
        with suppress(ValueError, RecursionError):
            record = json.loads(line)
            if _is_record(record):
                found = {name: record.get(name) for name in (*_NEEDED, "seq")}
                return found, not tail.endswith(b"\n")
    return None, False


def _is_record(found: Any) -> bool:
    """Whether it names its process and time. What a failing disk has left may be anything."""
    return (
        isinstance(found, dict)
        and all(isinstance(found.get(name), kind) for name, kind in _NEEDED.items())
        and found["v"] == VERSION
    )


def _death(last: dict[str, Any], lossy: bool) -> dict[str, Any]:
    """Return what to say after a process's last record.

    Arguments:
        lossy: whether some may be lost that were written after it.
    """
    said = {name: last[name] for name in ("v", "node", "pid", "boot")}
    dropped = {"dropped": 1} if lossy else {}
    said |= {"kind": "process", "at": time_ns() // 1000, "state": "dead", "last": last["seq"]}
    return said | dropped


def _shrink(folder: Path, limit: int) -> None:
    """Delete the oldest sealed files while all together take more than the limit."""
    files = []
    for path in (*folder.glob("*.jsonl"), *folder.glob(f"*{PACKED}")):
        if not path.name.startswith("_"):
            with suppress(OSError):
                stat = path.stat()
                files.append((stat.st_mtime, stat.st_size, path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= limit:
            return
        logger.warning("Deleting %s: the event log takes more than %s bytes", path, limit)
        with suppress(OSError):
            path.unlink()
            total -= size
