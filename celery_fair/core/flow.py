"""What is scheduled: a flow, its quantum and its credit."""

import math


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


class Flow:
    """One queue as the scheduler sees it. Made by `DeficitRoundRobin.add`; read-only outside.

    Attributes:
        key: the name it was added under.
        quantum: cost served per round.
        deficit: the deficit counter, in units of cost, as of the round `granted`.
        head: the cost of the message to serve next, or None when none is here.
        last_cost: the cost of the message served last.
    """

    __slots__ = ("deficit", "due", "granted", "head", "key", "last_cost", "place", "quantum")

    def __init__(self, key: str, quantum: float) -> None:
        self.key = key
        self.quantum = quantum
        self.deficit = 0.0
        self.head: float | None = None
        self.last_cost = 1.0
        self.granted = 0  # the last round whose quantum is in the deficit counter
        self.due = 0  # the round it is filed under; 0 while idle, below when held or removed
        self.place = 0  # in every round; places are given out in the order of becoming backlogged

    def rescale(self, ratio: float) -> None:
        """What costs are counted in has changed: what cost one costs `ratio` now."""
        self.last_cost *= ratio

    def __repr__(self) -> str:
        return f"<Flow {self.key} quantum={self.quantum:g} deficit={self.deficit:g} due={self.due}>"
