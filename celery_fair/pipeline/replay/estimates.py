"""What a message will take, by what those of its cost key took so far in the replay."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from celery_fair.pipeline.replay.machine import Message

__all__ = ["Estimates"]

_WEIGHT = 5.0
"""Runs that the task's mean counts for beside a key's own."""
_LEAST = 1e-6


class Estimates:
    """Means of keys, drawn towards their task's; a task that never ran is taken for a second."""

    def __init__(self) -> None:
        self._tasks: dict[str, tuple[int, float]] = {}
        self._keys: dict[tuple[str, str | None], tuple[int, float]] = {}

    def of(self, message: "Message") -> float:
        """Return the estimate in seconds, above zero."""
        n, seconds = self._tasks.get(message.task, (0, 0.0))
        if not n:
            return 1.0
        mean = seconds / n
        n, seconds = self._keys.get((message.task, message.cost_key), (0, 0.0))
        return max((seconds + _WEIGHT * mean) / (n + _WEIGHT), _LEAST)

    def learn(self, message: "Message") -> None:
        """A message has run."""
        n, seconds = self._tasks.get(message.task, (0, 0.0))
        self._tasks[message.task] = n + 1, seconds + message.runtime
        key = message.task, message.cost_key
        n, seconds = self._keys.get(key, (0, 0.0))
        self._keys[key] = n + 1, seconds + message.runtime
