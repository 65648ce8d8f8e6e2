"""Queues over all workers that have answered, with what waits at the broker."""

import math
from collections.abc import Mapping, Sequence
from time import time
from typing import Any

from celery_fair.core.targets import in_words
from celery_fair.operate.errors import NoAnswerError
from celery_fair.operate.workers import Workers

_ADDED = ("in_flight", "buffered", "served", "per_second", "cost_per_second")
_Figures = Mapping[str, Any]


def summed(
    workers: Workers, answers: Mapping[str, Mapping[str, _Figures]]
) -> tuple[dict[str, dict[str, Any]], str]:
    """Return each queue's figures, and what the broker has said instead of an answer, if it has.

    Arguments:
        answers: queues' figures, by worker, as to ``fair_status``.
    """
    rows: dict[str, list[_Figures]] = {}
    for queues in answers.values():
        for queue, figures in queues.items():
            rows.setdefault(queue, []).append(figures)
    keyed = {queue for queue, some in rows.items() if any(row.get("by_key") for row in some)}
    trouble = ""
    try:
        depths, oldest = workers.waiting(rows, keyed)
    except NoAnswerError as exc:
        depths, oldest, trouble = {}, {}, str(exc)
    shares = _shares(answers)
    now = time()
    return {
        queue: {
            **_sum(some),
            **dict(zip(("target_share", "share"), shares[queue], strict=True)),
            **_waits(some, depths.get(queue), oldest.get(queue), now),
        }
        for queue, some in rows.items()
    }, trouble


def _sum(rows: Sequence[_Figures]) -> dict[str, Any]:
    total = {name: sum(row.get(name) or 0 for row in rows) for name in _ADDED}
    held = [row for row in rows if row["held"]]
    first = held[0] if held else rows[0]
    return {
        **total,
        "workers": len(rows),
        "held_workers": len(held),
        **{name: first[name] for name in ("quantum", "class", "held", "max_in_flight")},
        "aim": aim_of([row.get("aim") for row in rows]),
        "throttled_seconds": min((row["throttled_seconds"] for row in held), default=0.0),
    }


Aim = Mapping[str, Any]
"""How a queue's target is kept, as in the answer to ``fair_status``."""


def aim_of(aims: Sequence[Aim | None]) -> dict[str, Any] | None:
    """Return how a queue's target is kept by all workers: as by the worst, with all their slots."""
    known = [aim for aim in aims if aim is not None]
    if not known:
        return None
    slots = {name: sum(aim[name] for aim in known) for name in ("slots", "slots_needed")}
    worst = max(known, key=lambda aim: (aim["missed"], aim["wait"] or 0.0))
    return {**worst, **slots}


def aim_in_words(aim: Aim | None) -> str:
    """Say what a queue's messages wait, and may wait; nothing if it has no target."""
    if aim is None:
        return ""
    if aim["wait"] is None:
        return f"–, {aim['asked']}"
    said = f"{in_words(aim['wait'])}, {aim['asked']}"
    if not aim["missed"]:
        return said
    needed = math.ceil(aim["slots_needed"])
    return f"{said} MISSED" + (f", {needed} slots would do" if needed > aim["slots"] else "")


def _shares(answers: Mapping[str, Mapping[str, _Figures]]) -> dict[str, tuple[float, float]]:
    """Return targets and shares of what all workers serve: a busy one counts for more."""
    served: dict[str, float] = {}
    wanted: dict[str, float] = {}
    for queues in answers.values():
        cost = sum(row.get("cost_per_second") or 0.0 for row in queues.values())
        for queue, row in queues.items():
            served[queue] = served.get(queue, 0.0) + (row.get("cost_per_second") or 0.0)
            wanted[queue] = wanted.get(queue, 0.0) + row["target_share"] * cost
    everything = sum(served.values()) or 1.0
    return {queue: (wanted[queue] / everything, served[queue] / everything) for queue in served}


def _waits(
    rows: Sequence[_Figures], depth: int | None, oldest: float | None, now: float
) -> dict[str, Any]:
    """Return what waits at the broker, how old the oldest is, and when all of it has started."""
    times = [row.get("oldest_published") for row in rows] + [oldest]
    known = [each for each in times if each is not None]
    speed = sum(row.get("per_second") or 0.0 for row in rows)
    left = sum(row["buffered"] for row in rows) + (depth or 0)
    empty = None if depth is None else 0.0 if not left else left / speed if speed else None
    return {
        "waiting_at_broker": depth,
        "oldest_seconds": max(0.0, now - min(known)) if known else None,
        "empty_in_seconds": empty,
    }
