"""What a message costs when its cost is the time it takes: ``fair_cost = "runtime"``.

A message is charged an estimate when it is started. When it has ended, its queue is charged the
difference to what it took, so that in the long run estimates do not matter: they keep the order
even in between.

The unit
--------
Costs are seconds then, while a quantum keeps the meaning that it has with messages: a quantum of 1
is worth the mean message. How many seconds that is, the *unit*, changes when the mean has doubled
or halved. As long as nothing is known, the unit is one message, and that is what each is charged;
such a charge, a *guess*, is converted when the first message has ended.

The estimate
------------
An estimate is a mean, never a median: what the scheduler equalises are sums. The mean of a *cost
key* is shrunk towards that of its task, as if `PRIOR` further runs of the key had taken what the
task takes (credibility *n* / (*n* + `PRIOR`); Buehlmann, "Experience rating and credibility",
1967). So a key about which nothing is known costs what its task costs.

A mean follows what changes: no run weighs less than one in `MEMORY`.
"""

import math
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

MEMORY = 100
PRIOR = 10
MODEL_FORMAT = 1
"""The version of the form in which estimates are exported and loaded."""
_LEAST = 1e-6
"""Seconds; a run time is not below, for a cost must be above zero."""


def check_quantum(quantum: float) -> float:
    """Return `quantum` as a float; raise `ValueError` unless it is finite and above zero."""
    return _positive("quantum", quantum)


def check_cost(cost: float) -> float:
    """Return `cost` as a float; raise `ValueError` unless it is finite and above zero."""
    return _positive("cost", cost)


def _positive(what: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{what} must be a number above zero, not {value!r}")
    try:
        amount = float(value)
    except OverflowError:
        amount = math.inf
    if not (math.isfinite(amount) and amount > 0):
        raise ValueError(f"{what} must be a finite number above zero, not {value!r}")
    return amount


class Price(NamedTuple):
    """What a message is charged at its start."""

    cost: float
    guessed: bool  # as nothing is known: one message, not seconds


class Change(NamedTuple):
    """A change of the unit."""

    ratio: float  # of the new unit to the old one
    first: bool  # the old one was a message, not seconds


class Mean:
    """The mean of what was added, of late."""

    def __init__(self, value: float = 0.0, n: float = 0.0) -> None:
        self.value = value
        self.n = min(n, MEMORY)

    def add(self, value: float) -> None:
        """Count one more."""
        self.n = min(self.n + 1, MEMORY)
        self.value += (value - self.value) / self.n


class Estimator:
    """Learns run times in seconds, by task and cost key.

    Arguments:
        limit: how many keys, and how many tasks, are remembered: those that were used last.

    Attributes:
        overall: the mean of all runs; its `n` is 0 as long as nothing is known.
    """

    def __init__(self, limit: int = 10_000) -> None:
        self.overall = Mean()
        self._limit = limit
        self._tasks: OrderedDict[str, Mean] = OrderedDict()
        self._keys: OrderedDict[tuple[str, str], Mean] = OrderedDict()

    def learn(self, task: str, key: str | None, seconds: float) -> None:
        """A run has taken this long."""
        seconds = max(seconds, _LEAST)
        self.overall.add(seconds)
        self._of(self._tasks, task).add(seconds)
        if key is not None:
            self._of(self._keys, (task, key)).add(seconds)

    def estimate(self, task: str, key: str | None) -> float | None:
        """Return the seconds that a run will take, None if nothing is known of any."""
        mean = self._tasks.get(task)
        known = self.overall if mean is None else mean
        if not known.n:
            return None
        runs = None if key is None else self._keys.get((task, key))
        if runs is None:
            return known.value
        return (runs.n * runs.value + PRIOR * known.value) / (runs.n + PRIOR)

    def load(self, model: Mapping[str, Any]) -> None:
        """Believe a model (``{"v": 1, "tasks": {task: {"mean", "n"}}, "keys": {task: {key: …}}}``).

        It replaces what was learned about its tasks and keys.

        Raises:
            ValueError: it has another form, or a mean or a number of runs that is not above zero.
        """
        try:
            if model["v"] != MODEL_FORMAT:
                raise ValueError(f"not a cost model: format {model['v']!r}, not {MODEL_FORMAT}")
            tasks = {task: _checked(entry) for task, entry in model["tasks"].items()}
            keys = {
                (task, key): _checked(entry)
                for task, entries in model["keys"].items()
                for key, entry in entries.items()
            }
        except (AttributeError, KeyError, TypeError) as exc:
            raise ValueError(f"not a cost model: {exc!r}") from None
        for known, loaded in ((self._tasks, tasks), (self._keys, keys)):
            for name, mean in loaded.items():
                known[name] = mean  # type: ignore[index]
            self._bound(known)
        runs = sum(mean.n for mean in tasks.values())
        if runs:
            self.overall = Mean(sum(mean.n * mean.value for mean in tasks.values()) / runs, runs)

    def _of(self, known: OrderedDict[Any, Mean], name: Any) -> Mean:
        if name not in known:
            known[name] = Mean()
            self._bound(known)
        known.move_to_end(name)
        return known[name]

    def _bound(self, known: OrderedDict[Any, Mean]) -> None:
        while len(known) > self._limit:
            known.popitem(last=False)


class Pricing(Estimator):
    """Prices messages by the run times that it has learned.

    Attributes:
        unit: what a quantum of 1 is worth, in seconds; 1.0 as long as nothing is known.
    """

    def __init__(self) -> None:
        super().__init__()
        self.unit = 1.0
        self._guesses_in: float | None = None  # the first unit, which guesses are converted to

    def price(self, task: str, key: str | None) -> Price:
        """Return what a message will probably take, in seconds."""
        known = self.estimate(task, key)
        return Price(1.0, True) if known is None else Price(known, False)

    @property
    def usual(self) -> float:
        """The seconds that a message takes of which nothing is known; next to none at first."""
        return max(self.overall.value, _LEAST)

    def charged(self, price: Price) -> float:
        """Return what was charged, in the present reckoning."""
        guess = price.guessed and self._guesses_in is not None
        return price.cost * self._guesses_in if guess else price.cost  # type: ignore[operator]

    def fit(self) -> Change | None:
        """Adapt the unit to the mean; return what has changed, if anything has."""
        mean = self.overall
        first = self._guesses_in is None
        if not mean.n or (not first and self.unit / 2 <= mean.value <= self.unit * 2):
            return None
        ratio, self.unit = mean.value / self.unit, mean.value
        if first:
            self._guesses_in = self.unit
        return Change(ratio, first)


def _checked(entry: Mapping[str, float]) -> Mean:
    mean, n = float(entry["mean"]), float(entry["n"])
    if not (0 < mean < float("inf") and n > 0):
        raise ValueError(f"not a cost model: a mean of {mean} s over {n} runs")
    return Mean(max(mean, _LEAST), n)
