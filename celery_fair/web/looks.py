"""What is asked for when somebody looks, and shown to all who look at the same."""

from collections.abc import Callable, Iterator, Mapping
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple

_FRESH = 1.0
"""Seconds for which an answer is shown to others, at the least."""

_FORGOTTEN = 60.0
"""Seconds after which an answer that nobody asks for is dropped, and what it was asked by."""

Answers = Iterator[Mapping[str, Any]]
Ask = Callable[[str], Answers]


class Answer(NamedTuple):
    """What was found, or the trouble with that."""

    found: Mapping[str, Any] = {}
    trouble: str = ""


class _Look(NamedTuple):
    answer: Answer
    answers: Answers
    at: float
    until: float


class Looks:
    """Asks about something by its name, once a second at the most, however many browsers look.

    One question at a time. Who has seen an answer gets that again while somebody else asks; only
    who comes first waits. What took long is asked as much less often: half of the time is rest.

    Arguments:
        ask: returns answers about a name, one after the other, on one connection, say.
        clock: the monotonic clock.
    """

    def __init__(self, ask: Ask, clock: Callable[[], float] = monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._asking = Lock()
        self._known: dict[str, _Look] = {}

    def of(self, name: str) -> Answer:
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

    def _asked(self, name: str) -> Answer:
        began = self._clock()
        kept = {n: look for n, look in self._known.items() if began - look.at < _FORGOTTEN}
        answers = kept[name].answers if name in kept else self._ask(name)
        try:
            answer = Answer(next(answers))
        except Exception as exc:  # noqa: BLE001 - of any transport: the page says it
            answer, answers = Answer(trouble=str(exc) or type(exc).__name__), self._ask(name)
        now = self._clock()
        until = now + max(_FRESH, now - began)
        self._known = kept | {name: _Look(answer, answers, now, until)}
        return answer
