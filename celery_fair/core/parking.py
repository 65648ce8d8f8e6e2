"""How many messages a worker keeps that are not to start now, beside those in its windows.

A queue's window grows by what is put off, so that messages with an ETA do not block those behind
them. With a limit (Celery's ``worker_eta_task_limit``) it grows as long as all queues together
keep no more than that. A queue has at least its window in any case; when its window is full of what
is put off, it is *stuck* until something of it comes due, or another queue leaves it room.
"""

import math
from collections.abc import Callable


class Parking:
    """Shared by the queues of a worker.

    Arguments:
        limit: how many messages may be put off at once; None: any number.
        on_room: called when there is room again, and a queue was stuck; and when none is put off
            any more, and windows may be as small as before.
    """

    def __init__(self, limit: int | None, on_room: Callable[[], object]) -> None:
        self._limit: float = math.inf if limit is None else limit
        self._on_room = on_room
        self._parked = 0
        self._some_stuck = False

    @property
    def room(self) -> float:
        """How many more there may be; below zero, as windows of several queues had none."""
        return self._limit - self._parked

    def enter(self) -> None:
        """One more is put off."""
        self._parked += 1

    def leave(self, count: int = 1) -> None:
        """So many are put off no more."""
        self._parked -= count
        if not self._parked or (self._some_stuck and self.room > 0):
            self._some_stuck = False
            self._on_room()

    def places(self, parked: int, window: int) -> float:
        """Return how many messages a queue may keep, in all.

        Arguments:
            parked: how many of them are put off now.
            window: how many it may keep if none is put off.
        """
        if self.room <= 0 and parked >= window:
            self._some_stuck = True
        return max(window, parked + self.room)
