"""Bounded waiting, in one place: no other test code sleeps.

Prefer a signal (a descriptor that becomes readable, a process that ends) to
this; use it where the awaited thing has no signal of its own, such as a file
that another process writes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event
from typing import Any

INTERVAL = 0.025
LONGEST = 0.1


def wait_for(
    predicate: Callable[[], Any],
    timeout: float,
    what: str | Callable[[], str] = "the condition",
    interval: float | None = None,
) -> Any:
    """Return the first true value of `predicate`, or raise TimeoutError.

    By default it is looked at less often when it has taken longer.
    """
    pause, begun = Event(), time.monotonic()
    while True:
        value = predicate()
        if value:
            return value
        waited = time.monotonic() - begun
        if waited >= timeout:
            detail = what() if callable(what) else what
            raise TimeoutError(f"waited {timeout:g} s for {detail}")
        pause.wait(max(INTERVAL, min(waited / 20, LONGEST)) if interval is None else interval)


def wait_equal(actual: Callable[[], Any], expected: Any, timeout: float = 30) -> None:
    """Block until `actual()` equals `expected`; fail with both."""
    last: list[Any] = [None]

    def equal() -> bool:
        last[0] = actual()
        return bool(last[0] == expected)

    wait_for(equal, timeout, lambda: f"{expected!r}, but it is {last[0]!r}")
