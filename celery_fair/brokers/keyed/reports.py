"""What workers tell each other that they have served, where each has tags of its own."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

from celery_fair.brokers.keyed.lists import base_of
from celery_fair.brokers.redis import Commands, Script

__all__ = ["Key", "Reports"]

Key = tuple[str, str]
"""A tenant, and a part of it."""

_EVERY, _EACH = 100, 5
"""Milliseconds for which costs are added up, before they are read: at least, and for each report.

So a server that has 200 workers answers 200 reports a second, as it does with 20."""

_FORGOTTEN = 60
"""Seconds after which nobody is told any more."""

_NOTHING = 1e-9
"""What is left of a worker's own costs where they are taken out of a sum."""

_MOST = 20
"""Sums that are read at once: who was away for longer has missed some."""


class Reports:
    """Of one worker, about one queue.

    Arguments:
        send: sends commands to the server.
        queue: its name.

    Attributes:
        every: seconds until the next is due.
    """

    def __init__(self, send: Commands, queue: str) -> None:
        self._base = send.key(base_of(queue))
        text = files("celery_fair.brokers.keyed").joinpath("report.lua").read_text()
        self._report = Script(send, text)
        self._number: int | None = None  # of the sum that goes on
        self._told: dict[Key, float] = {}  # of what is in that
        self.every = _EVERY / 1000

    def exchange(self, served: Mapping[Key, float]) -> dict[Key, float]:
        """Tell what was served here since the last time; return what was elsewhere.

        Costs that were known too late to be told with their messages may be below zero.

        Raises:
            redis.RedisError: it may have been told, or not.
        """
        told = [text for key, cost in served.items() for text in ("/".join(key), cost)]
        last = "" if self._number is None else self._number - 1
        args = [last, _EVERY, _EACH, _FORGOTTEN, _MOST, *told]
        number, long, read, *sums = self._report([self._base], args)
        self.every = long / 1000
        found: defaultdict[Key, float] = defaultdict(float)
        for each, costs in enumerate(sums, read + 1):
            for key, cost in _pairs(costs):
                found[key] += cost
            if each == self._number:
                for key, cost in self._told.items():
                    found[key] -= cost
        if number != self._number:
            self._number, self._told = number, {}
        for key, cost in served.items():
            self._told[key] = self._told.get(key, 0.0) + cost
        return {key: cost for key, cost in found.items() if abs(cost) > _NOTHING}


def _pairs(costs: Any) -> Iterable[tuple[Key, float]]:
    """As HGETALL answers within a script: a list, or a mapping."""
    flat = [each for pair in costs.items() for each in pair] if isinstance(costs, dict) else costs
    for key, cost in zip(flat[::2], flat[1::2], strict=True):
        tenant, _, part = key.decode().partition("/")
        yield (tenant, part), float(cost)
