"""How many messages to ask for at once: what slots are free for, and what starts in a moment."""

from collections.abc import Callable

__all__ = ["Ahead"]

_MOST = 32
"""Messages that are asked for at once, at the most."""

_WINDOW = 0.1
"""Seconds over which it is counted how many start."""


class Ahead:
    """Of one queue.

    Arguments:
        seconds: of work that is asked for at once: a key that was quiet waits for so much besides.
        free: returns how many slots are free.
    """

    def __init__(self, seconds: float, free: Callable[[], int]) -> None:
        self._seconds = seconds
        self._free = free
        self._soon = 0
        self._since, self._given_by_then = 0.0, 0

    def count(self, given: int, now: float) -> int:
        """Return how many to ask for.

        Arguments:
            given: messages that the queue has given so far.
            now: the time on the monotonic clock.
        """
        elapsed = now - self._since
        if elapsed >= _WINDOW:
            self._soon = int(self._seconds * (given - self._given_by_then) / elapsed)
            self._since, self._given_by_then = now, given
        return max(1, min(_MOST, max(self._soon, self._free())))
