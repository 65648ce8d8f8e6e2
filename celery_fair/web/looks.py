"""What is asked for when somebody looks, and shown to all who look at the same."""

from collections.abc import Callable
from threading import Lock
from time import monotonic
from typing import Generic, NamedTuple, TypeVar

__all__ = ["Looks"]

_FRESH = 1.0
"""Seconds for which an answer is shown to others, at the least."""

_FORGOTTEN = 60.0
"""Seconds after which an answer that nobody asks for is dropped."""

T = TypeVar("T")


class _Look(NamedTuple, Generic[T]):
    answer: T
    at: float
    until: float


class Looks(Generic[T]):
    """Asks about something by its name, once a second at the most, however many browsers look.

    One question at a time. Who has seen an answer gets that again while somebody else asks; only
    who comes first waits. What took long is asked as much less often: half of the time is rest.

    Arguments:
        ask: answers, and raises nothing.
        clock: the monotonic clock.
    """

    def __init__(self, ask: Callable[[str], T], clock: Callable[[], float] = monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._asking = Lock()
        self._known: dict[str, _Look[T]] = {}

    def of(self, name: str) -> T:
        """Return what was answered about it."""
        known = self._known.get(name)
        if known is not None and self._clock() < known.until:
            return known.answer
        if not self._asking.acquire(blocking=known is None):
            assert known is not None
            return known.answer
        try:
            known = self._known.get(name)
            if known is not None and self._clock() < known.until:  # asked while we waited
                return known.answer
            return self._asked(name)
        finally:
            self._asking.release()

    def _asked(self, name: str) -> T:
        began = self._clock()
        answer = self._ask(name)
        now = self._clock()
        kept = {n: look for n, look in self._known.items() if now - look.at < _FORGOTTEN}
        self._known = kept | {name: _Look(answer, now, now + max(_FRESH, now - began))}
        return answer
