"""Costs, as users write them."""

from __future__ import annotations

from typing import Any


def four(task: str, args: Any, kwargs: Any, headers: Any) -> float:
    return 4


def announced(task: str, args: Any, kwargs: Any, headers: Any) -> float:
    """The second argument of a "spin", the hard time limit of any other task."""
    return float(args[1] if task == "spin" else headers["timelimit"][0])


def second_argument(task: str, args: Any, kwargs: Any, headers: Any) -> str:
    return str(args[1])
