"""What becomes of the connection."""

from __future__ import annotations

from threading import Event
from typing import Literal

from tests.faults.acts.worker import LOST
from tests.faults.proxy import Direction
from tests.faults.run import Run
from tests.waiting import wait_for

When = Literal["before", "after"]
How = Literal["cut", "close"]
BLIND = 1.0
"""Seconds that a black hole lasts, if work has stopped: "confirmed" does not go on in one."""
SLOW = 40_000
"""Bytes per second: some tens of messages."""
SILENT = 3.0
"""Seconds without an answer: longer than what is held is its holder's, in a scene."""
QUIET = 1.0
NOTICED_WITHIN = 60
FLAPS = 3
FRAMES = 60
"""More than a worker needs to be back."""


def cut(run: Run) -> None:
    run.publish()
    run.moment()
    run.proxy.cut(reset=run.rng.random() < 0.7)


def cut_at(method: str, when: When, most: int, run: Run, action: How = "cut") -> None:
    """Cut at one of the first so many, or have the broker close the channel."""
    trap = run.proxy.on(method, nth=run.some(most), when=when, action=action)
    run.publish()
    trap.wait()


def cut_at_again(method: str, when: When, containing: bytes, run: Run, action: How = "cut") -> None:
    """Cut, and cut again at what a worker does when it is back, or have its channel closed.

    The first cut swallows an acknowledgement, so that there is a message that comes back flagged.
    """
    first = run.proxy.on({"rabbitmq": "ack", "redis": "ZREM"}[run.kind], nth=run.some(10))
    second = run.proxy.on(method, when=when, containing=containing, action=action)
    run.publish()
    first.wait()
    second.wait()


def flapping(run: Run) -> None:
    """Cut, and again and again amid what the worker does to be back, whatever that is."""
    run.publish()
    run.moment()
    run.proxy.cut()
    for _ in range(FLAPS):
        trap = run.proxy.on("", nth=run.some(FRAMES))
        for _ in range(FRAMES):
            if trap.fired.wait(QUIET):
                break
            run.one_each(run.shuffled())  # nothing goes to and fro any more
        trap.wait()


def answer_lost(command: str, most: int, run: Run) -> None:
    """What the worker says arrives; what the server says to that does not, for seconds.

    Then it comes late, or never.
    """
    trap = run.proxy.on(command, nth=run.some(most), action="hold")
    run.publish()
    trap.wait()
    run.proxy.hold("down")
    run.proxy.release("up")
    Event().wait(SILENT)
    if run.rng.random() < 0.7:
        run.proxy.cut()
    run.proxy.release()


def held(direction: Direction, run: Run) -> None:
    """What the worker says is lost, though every write succeeds; or what the broker says."""
    run.publish()
    run.moment()
    run.proxy.hold(direction)
    run.started(run.started(0) + run.some(6), BLIND)
    run.proxy.cut()
    run.proxy.release()


def silent(run: Run) -> None:
    """Nothing comes through any more, from one side or both, or after half a frame; until it is
    noticed."""
    lost = run.worker_process.log().count(LOST)
    run.publish()
    run.moment()
    way: Direction | None = run.rng.choice(["up", "down", None])
    if way:
        run.proxy.hold(way)
    elif run.rng.random() < 0.5:
        run.proxy.hold()
    else:
        run.proxy.on("", nth=run.some(FRAMES), action="halve")
    wait_for(
        lambda: run.worker_process.log().count(LOST) > lost or not run.one_each(run.shuffled()[:1]),
        NOTICED_WITHIN,
        run.worker_process.log,
        interval=0.5,
    )
    run.proxy.release()


def slow(run: Run) -> None:
    run.proxy.slow(SLOW)
    run.publish()
    run.moment()
    run.proxy.cut()
    run.moment()
    run.proxy.release()
