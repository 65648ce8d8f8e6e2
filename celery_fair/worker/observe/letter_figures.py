"""How many dead letters a worker has made, by queue and reason, for `metrics`.

Written by whichever thread buries, read by another, under a lock.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from threading import RLock
from typing import Any

from celery_fair.worker.launch.burial import message_dead_lettered

__all__ = ["LetterFigures"]


class LetterFigures:
    """Counts from its making on.

    Arguments:
        label: the name that a queue is counted under.
    """

    def __init__(self, label: Callable[[str], str]) -> None:
        self._label = label
        self._lock = RLock()  # a cold shutdown comes by within a signal's handler
        self._made: Counter[tuple[str, str]] = Counter()
        message_dead_lettered.connect(self._on_dead_letter)

    def made(self) -> dict[tuple[str, str], int]:
        """Return how many there were so far, by queue and reason."""
        with self._lock:
            return dict(self._made)

    def garbage(self, headers: Mapping[str, Any]) -> None:
        """What is no message at all went to the dead letters, with such headers."""
        place = self._label(headers["x-fair-queue"]), headers["x-fair-reason"]
        with self._lock:
            self._made[place] += 1

    def _on_dead_letter(self, headers: Mapping[str, Any], **_: Any) -> None:
        self.garbage(headers)
