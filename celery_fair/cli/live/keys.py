"""The key that ends a live display, read while waiting for its next picture."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from select import select
from time import monotonic, sleep
from types import ModuleType

__all__ = ["Keys", "keys"]

_END = {"q", "Q", "\x04", ""}  # Ctrl-D, and the end of what is read, too


class Keys:
    """A terminal whose keys are read one by one, or nothing to be read from."""

    def __init__(self, readable: bool) -> None:
        self._readable = readable

    def wait(self, seconds: float) -> bool:
        """Wait; return True at once when the end is asked for."""
        until = monotonic() + seconds
        while (left := until - monotonic()) > 0:
            if not self._readable:
                sleep(left)
            elif select([sys.stdin], [], [], left)[0] and sys.stdin.read(1) in _END:
                return True
        return False


@contextmanager
def keys() -> Iterator[Keys]:
    """Read keys as they are pressed, without echo, if standard input is a terminal."""
    termios = _termios()
    if termios is None or not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield Keys(readable=False)
        return
    import tty

    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield Keys(readable=True)
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _termios() -> ModuleType | None:
    try:
        import termios
    except ImportError:  # Windows: Ctrl-C ends the display
        return None
    return termios
