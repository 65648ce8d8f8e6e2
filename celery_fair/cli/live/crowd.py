"""The workers as they are asked again and again."""

from collections.abc import Mapping
from dataclasses import replace

from celery_fair.cli.live.answers import Answers
from celery_fair.cli.live.workers import Workers

__all__ = ["Crowd"]

_SEARCH = 10
"""Every so many times all workers are asked, not only those known: that takes the whole timeout."""


class Crowd:
    """Asks the workers that are known by name, which is answered at once; at times, all."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._known: tuple[str, ...] = ()
        self._others: Mapping[str, str] = {}
        self._twice: frozenset[str] = frozenset()
        self._asked = 0

    def ask(self) -> Answers:
        """Return the workers' status."""
        named = self._known if self._asked % _SEARCH else ()
        self._asked += 1
        self._known = ()  # should nobody answer
        answers = self._workers.status(named)
        self._known = tuple(answers.good)
        if named:  # those of other apps were not asked
            return replace(answers, others=self._others, twice=self._twice)
        self._others, self._twice = answers.others, answers.twice
        return answers
