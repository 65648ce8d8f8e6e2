"""Ctrl-C and SIGTERM in the middle of many letters: the one in hand is finished, then it ends."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["stoppable"]


@contextmanager
def stoppable() -> Iterator[Callable[[], bool]]:
    """Give what says whether to stop; a second Ctrl-C or SIGTERM raises `KeyboardInterrupt`."""
    asked = False

    def ask(_number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    before: dict[int, Any] = {
        number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
