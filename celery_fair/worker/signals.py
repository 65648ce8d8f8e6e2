"""Signals that end a worker wait for the end of a turn.

A cold shutdown (SIGQUIT, Ctrl-C twice, or SIGTERM with ``REMAP_SIGTERM``) happens in the signal's
handler: Celery unsubscribes there, cancels what runs and stops the pool. Amid a turn of the
dispatcher's that would be between an acknowledgement and a start, or before an answer is read.
"""

import signal
from collections.abc import Callable
from functools import partial
from threading import current_thread, main_thread
from typing import Any

_ENDS = [each for each in signal.Signals if each.name in ("SIGINT", "SIGTERM", "SIGQUIT")]


class Handlers:
    """Those of Celery's, each called when no block ``with`` this is under way."""

    def __init__(self) -> None:
        self._amid = False
        self._waiting: list[int] = []

    def take(self) -> None:
        """Take the places of those that are there; a worker in a thread of a test's has none."""
        for number in _ENDS if current_thread() is main_thread() else ():
            handler = signal.getsignal(number)
            if callable(handler) and getattr(handler, "func", None) != self._handle:
                signal.signal(number, partial(self._handle, handler))

    def _handle(self, handler: Callable[[int, Any], object], number: int, frame: Any) -> None:
        if self._amid:
            self._waiting.append(number)
            return
        try:
            handler(number, frame)
        finally:
            self.take()  # Celery has put others there, for the next signal

    def __enter__(self) -> None:
        self._amid = True

    def __exit__(self, *_: object) -> None:
        self._amid = False
        while self._waiting:
            signal.raise_signal(self._waiting.pop(0))
