"""No slot is idle while a message waits, whatever the other queues have or have not.

A worker of one slot that always has something to start never sleeps: the kernel
accounts for each process's time, and what others took of the processors is left
out. The same worker works through segments of so many tasks: without a tenth
queue, with an empty one, with one into which some messages a second trickle. A
wait for one of them would be sleep. (On Redis a worker sleeps until a question
is answered; then Redis is at work, or waits for a processor.) What such a queue
takes of the processor is measured by `benchmarks.trickle`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from statistics import median

import pytest

from tests.brokers import RedisServer, Space
from tests.fairness.schedstat import Watch
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
TASKS, MICROSECONDS = 300, 300
"""In a segment; that is a multiple of the time for which an owed refill is waited for."""
ROUNDS = 5
WARM_UP, RESERVE = 1000, 3000
"""What is worked off beside the segments, however slow the machine is at telling the worker."""
MOST_SLEEP = 0.1
"""Of its time; so it keeps nine tenths of its speed."""


@pytest.mark.parametrize(
    "space", ["rabbitmq", pytest.param("redis", marks=pytest.mark.wide)], indirect=True
)
def test_worker_never_sleeps_on_a_backlog(space: Space, start_worker: StartWorker) -> None:
    published = publish_evenly(RESERVE, space.url)
    worker = start_worker(space, queues=[*SATURATED, TENTH], conf=FAIR)
    worker.records.started.wait(WARM_UP)

    pids = [worker.pid]
    if isinstance(space.server, RedisServer):
        pids.append(space.server.pid)
    rounds: list[Mapping[str, float]] = []
    for number in range(ROUNDS):
        left = published - len(worker.records.started)
        published += publish_evenly(RESERVE + len(KINDS) * TASKS - left, space.url)
        kinds = KINDS if number % 2 else reversed(KINDS)
        rounds.append({kind: asleep(worker, pids, kind) for kind in kinds})

    sleep = {kind: median(each[kind] for each in rounds) for kind in KINDS}
    print(sleep)
    assert max(sleep.values()) <= MOST_SLEEP, rounds


def publish_evenly(count: int, url: str) -> int:
    """Publish so many, as many to each queue; returns how many those are."""
    each = dict.fromkeys(SATURATED, max(0, count) // len(SATURATED))
    publish(url, each, "spin", [MICROSECONDS], persistent=False)
    return sum(each.values())


def asleep(worker: WorkerProcess, pids: Sequence[int], kind: str) -> float:
    """The part of a segment in which the worker, and whom it waits for, sleep."""
    command = "cancel_consumer" if kind == "without" else "add_consumer"
    assert "ok" in worker.control(command, queue=TENTH)
    with ExitStack() as stack:
        if kind == "trickle":
            stack.enter_context(Trickle(worker.broker_url, TENTH, PER_SECOND))
        started = worker.records.started
        first, watch = len(started), Watch(*pids)
        started.wait(first + TASKS)
        return watch.asleep()
