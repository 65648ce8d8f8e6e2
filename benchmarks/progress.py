"""A progress bar on standard error, where that is a terminal; else a line per step."""

import sys
from time import monotonic

__all__ = ["Progress"]

_WIDTH = 30


class Progress:
    """Counts steps, of which the number is known."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._done = 0
        self._began = monotonic()

    def step(self, text: str) -> None:
        """Say what has just been done."""
        self._done += 1
        done = min(1.0, self._done / self._steps)
        bar = "#" * round(done * _WIDTH)
        line = f"[{bar:<{_WIDTH}}] {done:4.0%} {monotonic() - self._began:4.0f} s  {text}"
        over = sys.stderr.isatty()
        print(f"\r\033[K{line}" if over else line, end="" if over else "\n", file=sys.stderr)
        sys.stderr.flush()

    def close(self) -> None:
        """Leave the line to others."""
        if sys.stderr.isatty():
            print(file=sys.stderr)
