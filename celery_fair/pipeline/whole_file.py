"""A file that others may be reading, or that a crash may catch half written.

It is written beside under another name and renamed when it is whole and on the disk, so that who
reads sees the file of before or the new one. Who writes keeps the draft locked: a second one waits,
and what one that was killed has left is written over, as its lock has ended with it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import TextIO


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """Yield a file to write UTF-8 text to; at the end it takes its place, and not if that fails.

    What is no file, such as a pipe or ``/dev/stdout``, is written to as it is.

    Raises:
        OSError: it cannot be written.
    """
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8") as file:
            yield file
        return
    path = path.resolve()  # not the link is replaced, but what it leads to
    draft = path.with_name(f".{path.name}.draft")
    with _locked(draft) as file:
        try:
            if path.exists():  # who may read it may read the new one
                draft.chmod(path.stat().st_mode & 0o777)
            yield file
            file.flush()
            os.fsync(file.fileno())
            draft.replace(path)
        except BaseException:  # a full disk, an interrupt; re-raised
            draft.unlink(missing_ok=True)
            raise


def _locked(draft: Path) -> TextIO:
    """Return an empty file, locked until it is closed.

    Raises:
        OSError: it cannot be written.
    """
    while True:
        file = draft.open("a", encoding="utf-8")
        with suppress(OSError):  # where files cannot be locked, nobody can wait
            flock(file, LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), draft.stat()):
                file.truncate(0)
                return file
        file.close()  # who had it has renamed or removed it meanwhile
