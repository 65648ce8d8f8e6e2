"""A file that others may be reading, or that a crash may catch half written.

It is written beside under another name and renamed when it is whole and on the disk, so that who
reads sees the file of before or the new one. What a writer that was killed has left under such a
name, the next one removes.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from celery_fair.pipeline.owned import is_left, owned

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
    _clear_up(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with owned(draft) as file:
            if path.exists():  # who may read it may read the new one
                draft.chmod(path.stat().st_mode & 0o777)
            yield file
            file.flush()
            os.fsync(file.fileno())
            draft.replace(path)
    except BaseException:  # a full disk, an interrupt; re-raised
        draft.unlink(missing_ok=True)
        raise


def _clear_up(path: Path) -> None:
    """Remove drafts of a file whose writers are gone."""
    named = re.compile(rf"\.{re.escape(path.name)}\.\d+")
    with suppress(OSError):  # nobody may look, or write, there: it is told when the file is written
        for left in path.parent.iterdir():
            if named.fullmatch(left.name) and is_left(left):
                left.unlink(missing_ok=True)
