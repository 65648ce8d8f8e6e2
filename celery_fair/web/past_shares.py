"""What queues got in a time, what was due to them and why they did not get it: of `fairness`."""

import math
from collections import defaultdict
from typing import Any, NamedTuple

__all__ = [
    "JUDGED",
    "KEPT",
    "Interval",
    "Share",
    "shares_by_step",
    "shares_of",
    "verdicts",
    "worst",
]

JUDGED = ("queue", "since", "until", "served", "due", "total", "verdict")
"""The columns that are read."""

KEPT = ("FAIR", "ALONE")
"""Verdicts on who got its share, or had nobody to share with."""

_OFF = 20_000
_WORST = 20
_AMOUNTS = ("served", "due", "total")


class Share(NamedTuple):
    """Parts of all that was contended: what was served, and what was due."""

    share: float | None = None
    target: float | None = None


class Interval(NamedTuple):
    """A queue in an interval at a worker which did not keep its share."""

    since: float
    until: float
    share: float | None
    target: float | None
    verdict: str


def shares_of(rows: Any) -> dict[str, Share]:
    """Return each queue's, of all intervals."""
    return {row["queue"]: _share(row, "_sum") for row in _summed(rows, ["queue"])}


def shares_by_step(rows: Any, step: float) -> dict[str, dict[int, Share]]:
    """Return each queue's, of intervals that begin in the same seconds, `step` of them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    steps = pc.cast(pc.floor(pc.divide(rows["since"], step)), pa.int64())
    found: defaultdict[str, dict[int, Share]] = defaultdict(dict)
    for row in _summed(rows.append_column("step", steps), ["queue", "step"]):
        found[row["queue"]][row["step"]] = _share(row, "_sum")
    return found


def verdicts(rows: Any) -> dict[str, dict[str, int]]:
    """Return how many of each queue's intervals have which."""
    found: defaultdict[str, dict[str, int]] = defaultdict(dict)
    counted = rows.group_by(["queue", "verdict"]).aggregate([("since", "count")])
    for row in counted.to_pylist():
        found[row["queue"]][row["verdict"]] = row["since_count"]
    return found


def worst(rows: Any) -> dict[str, list[Interval]]:
    """Return each queue's that are not `KEPT`, the furthest from its target first.

    Those are of the furthest off of all queues.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    off = rows.filter(pc.invert(pc.is_in(rows["verdict"], pa.array(KEPT))))
    apart = pc.divide(pc.abs(pc.subtract(off["served"], off["due"])), off["total"])
    off = off.append_column("apart", apart)
    order = [("apart", "descending"), ("since", "ascending")]
    found: defaultdict[str, list[Interval]] = defaultdict(list)
    for row in off.sort_by(order).slice(0, _OFF).to_pylist():
        if len(found[row["queue"]]) < _WORST:
            told = Interval(row["since"], row["until"], *_share(row), row["verdict"])
            found[row["queue"]].append(told)
    return found


def _summed(rows: Any, by: list[str]) -> list[dict[str, Any]]:
    summed = rows.group_by(by).aggregate([(name, "sum") for name in _AMOUNTS])
    return summed.to_pylist()  # type: ignore[no-any-return]


def _share(row: dict[str, Any], of: str = "") -> Share:
    served, due, total = (row[f"{name}{of}"] or 0.0 for name in _AMOUNTS)
    return Share(_part(served, total), _part(due, total))


def _part(some: float, total: float) -> float | None:
    return some / total if total and math.isfinite(some / total) else None
