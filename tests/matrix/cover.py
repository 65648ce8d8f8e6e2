"""A pairwise cover: few rows in which any two values meet that meet in any row at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from itertools import combinations
from typing import TypeVar

Row = tuple[Hashable, ...]
Pair = tuple[tuple[int, Hashable], tuple[int, Hashable]]
R = TypeVar("R", bound=Row)


def pairs(row: Row) -> set[Pair]:
    """Any two of a row's values, each with its column."""
    return set(combinations(enumerate(row), 2))


def cover(rows: Iterable[R]) -> list[R]:
    """Choose rows, one after the other: one in which most pairs meet that have not met yet.

    Among several it is the one whose values were chosen least often so far, so that none is chosen
    much more often than others need; then the first. The same rows give the same choice, in their
    order.
    """
    left = {row: pairs(row) for row in rows}
    order = list(left)
    chosen: list[R] = []
    uses: Counter[tuple[int, Hashable]] = Counter()
    while left:
        best = max(left, key=lambda row: (len(left[row]), -sum(uses[v] for v in enumerate(row))))
        met = left.pop(best)
        chosen.append(best)
        uses.update(enumerate(best))
        left = {row: new for row, some in left.items() if (new := some - met)}
    return sorted(chosen, key=order.index)
