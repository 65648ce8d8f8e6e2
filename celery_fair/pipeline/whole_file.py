"""A file that others may be reading, or that a crash may catch half written.

It is written beside under another name and renamed when it is whole and on the disk, so that who
reads sees the file of before or the new one.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

__all__ = ["whole_file"]


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
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("w", encoding="utf-8") as file:
            if path.exists():  # who may read it may read the new one
                draft.chmod(path.stat().st_mode & 0o777)
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:  # a full disk, an interrupt; re-raised
        draft.unlink(missing_ok=True)
        raise
