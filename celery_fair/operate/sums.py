"""Queues over all workers that have answered, with what waits at the broker.

A worker's share of a queue is of what that worker served. Of all workers together it is weighed by
what each of them served in those ten seconds, and so is the target.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from time import time
from typing import Any

from celery_fair.core.targets import in_words
from celery_fair.operate.errors import NoAnswerError
from celery_fair.operate.workers import Workers

Figures = Mapping[str, Any]
"""Of a queue, as a worker answers to ``fair_status``, or as they sum up."""

_ADDED = ("in_flight", "buffered", "window", "served", "per_second", "cost_per_second")
_SHARES = ("target_share", "share")


def summed(
    workers: Workers, answers: Mapping[str, Mapping[str, Figures]]
) -> tuple[dict[str, dict[str, Any]], str]:
    """Ask the broker, and return each queue's figures, and what it has said instead of an answer.

    Arguments:
        answers: queues' figures, by worker, as to ``fair_status``.
    """
    every = [row for rows in answers.values() for row in rows.items()]
    keyed = {queue for queue, row in every if row["by_key"]}
    trouble = ""
    try:
        depths, oldest = workers.waiting({queue for queue, _ in every}, keyed)
    except NoAnswerError as exc:
        depths, oldest, trouble = {}, {}, str(exc)
    return by_queue(answers, depths, oldest, time()), trouble


def by_queue(
    answers: Mapping[str, Mapping[str, Figures]],
    depths: Mapping[str, int],
    oldest: Mapping[str, float],
    now: float,
) -> dict[str, dict[str, Any]]:
    """Return each queue's figures.

    Arguments:
        answers: as `summed`.
        depths: how many messages wait at the broker, as far as it says.
        oldest: when the first of those was published, as far as it says.
    """
    at: dict[str, dict[str, Figures]] = {}
    for worker, rows in answers.items():
        for queue, row in rows.items():
            at.setdefault(queue, {})[worker] = row
    costs = {worker: added(rows.values())["cost_per_second"] for worker, rows in answers.items()}
    total = sum(costs.values())
    weights = {worker: cost / total if total else 1 / len(costs) for worker, cost in costs.items()}
    return {
        queue: {
            **_sum([*rows.values()]),
            **{name: sum(row[name] * weights[w] for w, row in rows.items()) for name in _SHARES},
            **_waits([*rows.values()], depths.get(queue), oldest.get(queue), now),
        }
        for queue, rows in at.items()
    }


def added(rows: Collection[Figures]) -> dict[str, Any]:
    """Return what adds up, of any rows."""
    return {name: sum(row[name] for row in rows) for name in _ADDED}


def _sum(rows: Sequence[Figures]) -> dict[str, Any]:
    held = [row for row in rows if row["held"]]
    first = held[0] if held else rows[0]
    limits = ((row["rate"], row["burst"], row["max_in_flight"]) for row in rows)
    return {
        **added(rows),
        "workers": len(rows),
        "held_workers": len(held),
        "held_at": Counter(row["held"] for row in held),
        **{name: first[name] for name in ("class", "by_key", "held", "max_in_flight")},
        "quantum": max(row["quantum"] for row in rows),
        "quanta": sorted({row["quantum"] for row in rows}),
        "limits": list(dict.fromkeys(each for each in limits if any(each))),
        "aim": aim_of([row["aim"] for row in rows]),
        "waiting_seconds": max(row["waiting_seconds"] for row in rows),
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


def _waits(
    rows: Sequence[Figures], depth: int | None, oldest: float | None, now: float
) -> dict[str, Any]:
    """Return what waits at the broker, how old the oldest is, and when all of it has started."""
    times = [*(row["oldest_published"] for row in rows), oldest]
    known = [each for each in times if each is not None]
    speed = sum(row["per_second"] for row in rows)
    left = sum(row["buffered"] for row in rows) + (depth or 0)
    empty = None if depth is None else 0.0 if not left else left / speed if speed else None
    return {
        "waiting_at_broker": depth,
        "oldest_seconds": max(0.0, now - min(known)) if known else None,
        "empty_in_seconds": empty,
    }
