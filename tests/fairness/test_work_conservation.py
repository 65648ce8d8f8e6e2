"""Queues with little or nothing in them do not slow the worker down.

The same worker works through segments of so many tasks: without a tenth queue,
with an empty one, with one into which some messages a second trickle. The
machine may be shared, and run at half its speed a moment later. So the worker's
time, less what others took, is told in units of what its tasks' fixed work
takes at that moment, neighbours are compared, and there are as many of them as
it takes to see the limit kept.
"""

from __future__ import annotations

from contextlib import ExitStack
from statistics import median

import pytest

from tests.brokers import Space
from tests.fairness.schedstat import Moment
from tests.fairness.trickle import Trickle
from tests.publishing import publish
from tests.workers import StartWorker, WorkerProcess

pytestmark = pytest.mark.newest

TENTH = "p9"
SATURATED = [f"p{number}" for number in range(9)]
FAIR = {"fair_queues": {name: {"quantum": 2} for name in (*SATURATED, TENTH)}}
"""Rounds are short, so that a wait in each would be felt, and leave the tenth queue credit."""
KINDS = ("without", "empty", "trickle")
PER_SECOND = 20
TASKS, STEPS = 300, 10_000
"""In a segment; that is a multiple of the time for which an owed refill is waited for."""
REPETITIONS, AT_LEAST = 14, 5
WARM_UP, RESERVE = 1000, 3000
"""What is worked off beside the segments, however slow the machine is at telling the worker."""
LEAST_SPEED = 0.9


def test_speed(space: Space, start_worker: StartWorker) -> None:
    published = publish_evenly(RESERVE, space.url)
    worker = start_worker(space, app="tests.apps.measured", queues=[*SATURATED, TENTH], conf=FAIR)
    worker.records.started.wait(WARM_UP)

    empty, trickle = [], []
    for number in range(REPETITIONS):
        left = published - len(worker.records.finished)
        published += publish_evenly(RESERVE + len(KINDS) * TASKS - left, space.url)
        kinds = KINDS if number % 2 else reversed(KINDS)
        speeds = {kind: speed(worker, kind) for kind in kinds}
        empty.append(speeds["empty"] / speeds["without"])
        trickle.append(speeds["trickle"] / speeds["without"])
        least = min(median(empty), median(trickle))
        if number + 1 >= AT_LEAST and least >= LEAST_SPEED:
            break

    print(f"{median(empty):.2f} with an empty queue, {median(trickle):.2f} with a trickle")
    assert least >= LEAST_SPEED, (sorted(empty), sorted(trickle))


def publish_evenly(count: int, url: str) -> int:
    """Publish so many, as many to each queue; returns how many those are."""
    each = dict.fromkeys(SATURATED, max(0, count) // len(SATURATED))
    publish(url, each, "count", [STEPS], persistent=False)
    return sum(each.values())


def speed(worker: WorkerProcess, kind: str) -> float:
    """The part of the worker's own time that its tasks' work takes."""
    command = "cancel_consumer" if kind == "without" else "add_consumer"
    assert "ok" in worker.control(command, queue=TENTH)
    with ExitStack() as stack:
        if kind == "trickle":
            stack.enter_context(Trickle(worker.broker_url, TENTH, PER_SECOND))
        finishes = worker.records.finished
        first, before = len(finishes), Moment.of(worker.pid)
        finishes.wait(first + TASKS)
        last, after = len(finishes), Moment.of(worker.pid)
    work = sum(record.seq for record in finishes.read()[first:last]) / 1e9
    return work / after.own_time_since(before)
