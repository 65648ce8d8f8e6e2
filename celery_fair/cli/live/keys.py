"""The key that ends a live display, read while waiting for its next picture."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from select import select
from time import monotonic, sleep
from types import ModuleType

__all__ = ["Keys", "keys"]

_END = b"qQ\x04"  # Ctrl-D too


class Keys:
    """A terminal whose keys are read one by one, or nothing to be read from."""

    def __init__(self, fd: int | None) -> None:
        self._fd = fd

    def wait(self, seconds: float) -> bool:
        """Wait; return True at once when the end is asked for."""
        until = monotonic() + seconds
        while (left := until - monotonic()) > 0:
            if self._fd is None:
                sleep(left)
            elif select([self._fd], [], [], left)[0] and _ends(os.read(self._fd, 64)):
                return True
        return False


@contextmanager
def keys() -> Iterator[Keys]:
    """Read keys as they are pressed, without echo, if standard input is a terminal."""
    termios = _termios()
    if termios is None or not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield Keys(None)
        return
    import tty

    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield Keys(sys.stdin.fileno())
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _ends(typed: bytes) -> bool:
    return not typed or any(key in _END for key in typed)  # nothing: the terminal is gone


def _termios() -> ModuleType | None:
    try:
        import termios
    except ImportError:  # Windows: Ctrl-C ends the display
        return None
    return termios
