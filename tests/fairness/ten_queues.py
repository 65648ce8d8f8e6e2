"""The sources' ten queues: quanta 4 to 40, and a backlog counted in rounds."""

from __future__ import annotations

from typing import Any

QUANTA = {f"p{number}": 4 * (number + 1) for number in range(10)}

FAIR: dict[str, Any] = {"fair_queues": {name: {"quantum": q} for name, q in QUANTA.items()}}

AT_COST_4 = FAIR | {"fair_cost": "tests.fairness.costs.four"}
"""As in the sources: p0 gets one message a round, p9 ten."""


def messages(rounds: int, cost: int = 4) -> dict[str, int]:
    """What so many rounds serve of each queue."""
    return {name: rounds * quantum // cost for name, quantum in QUANTA.items()}


def a_round(cost: int = 4) -> int:
    """Messages of one round: 55 at the sources' cost, 220 at cost 1."""
    return sum(messages(1, cost).values())
