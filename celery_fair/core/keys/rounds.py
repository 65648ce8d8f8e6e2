"""Which of many to look at now, when only so many a second are to be looked at.

They are taken one after the other, again and again. What is owed is counted by the clock, so that
one who comes late, and now and then, looks at more: between two looks at the same one pass
``count / rate`` seconds, and the time for which nobody asked, at the most.
"""


class Rounds:
    """Numbers from 0.

    Arguments:
        rate: how many a second.
        now: when all of them have been looked at.
    """

    def __init__(self, rate: float, now: float) -> None:
        self._rate = rate
        self._paid_until = now
        self._next = 0

    def due(self, count: int, now: float) -> list[int]:
        """Return those that are to be looked at now, of so many; none twice."""
        owed = int(self._rate * (now - self._paid_until))
        self._paid_until += owed / self._rate
        first, some = self._next, min(owed, count)
        if some:
            self._next = (first + some) % count
        return [(first + step) % count for step in range(some)]
