"""The faults, as data: what is done to whom, and what it may cost.

A fault's function is given a `Run` and returns when the damage is done and its
cause is over. What it may cost at the most:

- each worker killed: as many messages as it runs at once, of those that are
  acknowledged before they start (one that is being acknowledged is for a slot
  that is free);
- each connection lost: one of those whose acknowledgement is a round trip
  ("confirmed", and all on Redis), if the answer is what was lost;
- a queue deleted or flushed: what was in it.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Literal, NamedTuple

import psutil

from tests.brokers import RedisServer
from tests.faults.accounting import EVERYTHING, Account, Allowed
from tests.faults.proxy import Direction
from tests.faults.scene import QUEUES, Run, Scene
from tests.integration.depths import left
from tests.waiting import wait_equal, wait_for

TASKS = ("before", "after", "confirmed")
BOTH = ("rabbitmq", "redis")
EITHER = (False, True)
BLIND = 1.0
"""Seconds that a black hole lasts, if work has stopped: "confirmed" does not go on in one."""
DELETED = "was deleted at the broker"
"""What the worker says of a queue that it declares again."""
LOST = "Connection to broker lost"
HANGS_AFTER = 10
SLOW = 40_000
"""Bytes per second: some tens of messages."""


def by_round_trip(kind: str) -> set[str]:
    """The tasks whose acknowledgement is answered before they start."""
    return {"confirmed"} if kind == "rabbitmq" else {"before", "confirmed"}


class Loss(NamedTuple):
    """What a fault may cost at the most."""

    everything: bool
    """Whatever is in the queue."""
    running: int
    """Workers, and with each what it runs."""
    answers: int
    """Connections, and with each a message whose acknowledgement's answer was lost."""

    def allowed(self, concurrency: int) -> Allowed:
        """In messages, of workers with so many slots."""
        if self.everything:
            return EVERYTHING
        running = self.running * concurrency
        both = running + self.answers  # what is about to start has not started
        return Allowed(running, both, both)


@dataclass(frozen=True)
class Fault:
    act: Callable[[Run], None]
    brokers: tuple[str, ...] = BOTH
    queue_types: tuple[str, ...] = ("classic", "quorum")
    """On RabbitMQ."""
    pools: tuple[str, ...] = ("threads",)
    kills: int = 0
    """Workers that die without a farewell."""
    cuts: int = 1
    """How often the worker loses its connection."""
    deletes: bool = False
    buries: bool = True
    """Whether it leads to dead letters."""
    halves: int = 0
    """Messages that are given back by half, on RabbitMQ: the copy is in its queue and starts, and
    the original was not acknowledged, comes again and is a dead letter."""
    mortal: bool = False
    """Whether it hurts a whole broker."""
    ledgers: tuple[bool, ...] = (False,)
    """Without, or with one."""

    def loss(self, kind: str, tasks: tuple[str, ...]) -> Loss:
        early = set(tasks) - {"after"}
        waiting = early & by_round_trip(kind)
        return Loss(self.deletes, self.kills if early else 0, self.cuts if waiting else 0)

    def allowed(self, scene: Scene, tasks: tuple[str, ...]) -> Allowed:
        """What may become of messages of these tasks.

        A second cut may come amid the moves that the first has led to. On RabbitMQ it takes along
        the acknowledgements that are under way then; on Redis a move is one step. What starts when
        the broker has answered its acknowledgement never comes again, if the broker survives.
        """
        kind = scene.space.kind
        twice = math.inf if kind == "rabbitmq" and self.cuts > 1 else 0
        dead = math.inf if self.buries else 0
        allowed = self.loss(kind, tasks).allowed(scene.concurrency)
        halves = self.halves if kind == "rabbitmq" else 0
        answered = set(tasks) <= by_round_trip(kind) and kind != "sqs"  # which delivers it again
        started = halves if answered and not self.mortal else math.inf
        return allowed._replace(dead=dead, dead_started=started, dead_twice=twice)


# The network -------------------------------------------------------------------


def cut(run: Run) -> None:
    run.publish()
    run.moment()
    run.proxy.cut(reset=run.rng.random() < 0.7)


def cut_at(method: str, when: Literal["before", "after"], most: int, run: Run) -> None:
    """Cut at one of the first so many."""
    trap = run.proxy.on(method, nth=run.some(most), when=when)
    run.publish()
    trap.wait()


def cut_at_again(
    method: str, when: Literal["before", "after"], containing: bytes, run: Run
) -> None:
    """Cut, and cut again at what a worker does when it is back.

    The first cut swallows an acknowledgement, so that there is a message that comes back flagged.
    """
    first = run.proxy.on({"rabbitmq": "ack", "redis": "ZREM"}[run.kind], nth=run.some(10))
    second = run.proxy.on(method, when=when, containing=containing)
    run.publish()
    first.wait()
    second.wait()


def held(direction: Direction, run: Run) -> None:
    """What the worker says is lost, though every write succeeds; or what the broker says."""
    run.publish()
    run.moment()
    run.proxy.hold(direction)
    run.started(run.started(0) + run.some(6), BLIND)
    run.proxy.cut()
    run.proxy.release()


def slow(run: Run) -> None:
    run.proxy.slow(SLOW)
    run.publish()
    run.moment()
    run.proxy.cut()
    run.moment()
    run.proxy.release()


# The broker --------------------------------------------------------------------


def broker_killed(run: Run) -> None:
    run.publish()
    run.moment()
    run.scene.space.server.kill()
    run.scene.space.server.restart()


def broker_restarted(run: Run) -> None:
    run.publish()
    run.moment()
    run.scene.space.server.restart()


def flushed(run: Run) -> None:
    run.publish()
    run.moment()
    server = run.scene.space.server
    assert isinstance(server, RedisServer)
    server.flush(run.scene.space.place)


def queue_deleted(run: Run) -> None:
    """A classic one.

    A quorum queue of RabbitMQ 3.10 that is declared again at once refuses messages for a while, or
    takes the consumer of the deleted one for its own and delivers into nothing.
    """
    run.publish()
    run.moment()
    before = run.worker_process.log().count(DELETED)
    run.scene.delete(run.rng.choice(QUEUES))
    log = run.worker_process.log
    wait_for(lambda: log().count(DELETED) > before, 15, log)


# The ledger --------------------------------------------------------------------


def ledger_flushed(run: Run) -> None:
    """And then the connection is cut: what comes back was claimed, and nobody knows it any more."""
    run.publish()
    run.moment()
    run.scene.ledger.server.flush(run.scene.ledger.place)
    run.proxy.cut()


def ledger_away(run: Run) -> None:
    """It is away, the connection is cut, and it is back."""
    run.publish()
    run.moment()
    os.kill(run.scene.ledger.server.pid, signal.SIGSTOP)
    try:
        run.proxy.cut()
        run.started(run.started(0) + run.some(6), BLIND)
    finally:
        os.kill(run.scene.ledger.server.pid, signal.SIGCONT)


# The worker --------------------------------------------------------------------


def worker_killed(run: Run) -> None:
    run.publish()
    run.moment()
    run.kill()


def killed_buffered(run: Run) -> None:
    """What waits in the worker was delivered, and neither acknowledged nor chosen."""
    run.buffer()
    run.kill()


def killed_acknowledged(run: Run) -> None:
    """The pool's processes stand still, so that what they are handed cannot start.

    Of "after", which is acknowledged at the end, it is what was handed over and has not started.
    """
    for child in run.worker_process.children():
        child.suspend()
    tasks = run.shuffled() * run.scene.concurrency  # at least so many
    ids = run.one_each(tasks)
    handed = tasks[: run.scene.concurrency]
    wait_equal(
        lambda: left(run.scene.space, QUEUES[0]), len(ids) - len(handed) + handed.count("after")
    )
    run.kill()
    assert not run.scene.records.started.times(ids)


def killed_working(run: Run) -> None:
    """All slots work."""
    run.hold()
    run.occupied()
    run.kill()


def killed_done(run: Run) -> None:
    """What has been done is not acknowledged: that is under way, and arrives no more.

    A task whose acknowledgement is a round trip, before it starts, waits for the answer then.
    """
    waits = {"confirmed"} if run.kind == "rabbitmq" else {"before", "confirmed"}
    trap = run.proxy.on({"rabbitmq": "ack", "redis": "ZREM"}[run.kind], action="hold")
    done = run.one_each([task for task in run.shuffled() if task not in waits])
    run.scene.records.finished.wait_ids(done)
    run.one_each([task for task in run.shuffled() if task in waits])
    trap.wait()
    run.kill()
    run.proxy.cut()


def child_killed(run: Run) -> None:
    """SIGKILL for one of the pool's processes."""
    run.publish()
    run.hold()
    run.moment()
    children = [child.pid for child in run.worker_process.children()]
    running = wait_for(lambda: [pid for pid in run.busy() if pid in children], 10, "a busy child")
    psutil.Process(run.rng.choice(running)).kill()


def terminated(run: Run) -> None:
    """SIGTERM: a warm shutdown.

    Under prefork now and then a process of the pool waits 30 seconds for its last result to be
    counted, on Celery's own worker too.
    """
    run.publish()
    run.moment()
    assert run.worker_process.stop() == 0


def terminated_and_cut(run: Run) -> None:
    """The connection breaks while what was not started is given back."""
    run.publish()
    run.hold()
    if run.kind == "rabbitmq":
        run.filled()
        trap = run.proxy.on("confirm", nth=3)
        run.worker_process.sigterm()
        trap.wait()
    else:  # there may be nothing to give back
        run.moment()
        run.proxy.on("EVAL")
        run.worker_process.sigterm()
    run.gate.open()
    run.worker_process.wait()


def quit_(run: Run) -> None:
    """SIGQUIT: a cold shutdown, and SIGKILL where that hangs.

    Celery does all of it within the signal's handler, which then may wait for a lock of the code
    that it has interrupted (that of the thread pool, for one).
    """
    run.publish()
    run.moment()
    run.worker_process.sigquit()
    with suppress(subprocess.TimeoutExpired):
        run.worker_process.wait(HANGS_AFTER)
    run.worker_process.process.end()


def stopped(run: Run) -> None:
    """The worker sleeps while its broker gives its messages to another, and then wakes."""
    run.publish()
    run.moment()
    log = run.worker_process.log
    before = log().count(LOST)
    os.kill(run.worker_process.pid, signal.SIGSTOP)
    try:
        run.proxy.cut()
        run.scene.second()
        run.scene.drained()
    finally:
        os.kill(run.worker_process.pid, signal.SIGCONT)
    # Until it knows, it may take what is published next on one connection and lose it on another.
    wait_for(lambda: log().count(LOST) > before, 15, log)


def overslept(run: Run) -> None:
    """The same, and its connection is as it was: what it holds is another's by now."""
    run.buffer()
    os.kill(run.worker_process.pid, signal.SIGSTOP)
    try:
        run.scene.second()
        run.scene.drained()
    finally:
        os.kill(run.worker_process.pid, signal.SIGCONT)


_DEAD = b"dead-letters"
_AMQP = {
    f"cut {when} {method}": Fault(partial(cut_at, method, when, most), ("rabbitmq",))
    for method, most in (("deliver", 20), ("ack", 20))
    for when in ("before", "after")
} | {
    f"cut {when} {method}": Fault(
        partial(cut_at_again, method, when, containing), ("rabbitmq",), cuts=2
    )
    for method, containing in (
        ("consume", QUEUES[0].encode()),
        ("publish", _DEAD),
        ("confirm", b""),
    )
    for when in ("before", "after")
}
_REDIS = {
    f"cut {when} {command}": Fault(fault, ("redis",), cuts=2)
    for when in ("before", "after")
    for command, fault in {
        "fetch (EVALSHA)": partial(cut_at, "EVALSHA", when, 4),
        "ack (ZREM)": partial(cut_at, "ZREM", when, 10),
        "move (EVAL)": partial(cut_at_again, "EVAL", when, _DEAD),
    }.items()
}

FAULTS: dict[str, Fault] = (
    {"cut": Fault(cut, ledgers=EITHER)}
    | _AMQP
    | _REDIS
    | {
        "black hole, then cut": Fault(partial(held, "up")),
        "deaf, then cut": Fault(partial(held, "down")),
        "slow, then cut": Fault(slow),
        "broker kill -9": Fault(broker_killed, mortal=True),
        "broker restart": Fault(broker_restarted, mortal=True),
        "queue deleted": Fault(
            queue_deleted, ("rabbitmq",), queue_types=("classic",), deletes=True
        ),
        "flushed": Fault(flushed, ("redis",), deletes=True),
        "worker kill -9": Fault(
            worker_killed, kills=1, cuts=0, pools=("threads", "prefork"), ledgers=EITHER
        ),
        "worker kill -9, buffered": Fault(killed_buffered, cuts=0, pools=("threads", "prefork")),
        "worker kill -9, acknowledged": Fault(
            killed_acknowledged, kills=1, cuts=0, pools=("prefork",)
        ),
        "worker kill -9, working": Fault(
            killed_working, kills=1, cuts=0, pools=("threads", "prefork")
        ),
        "worker kill -9, done": Fault(killed_done, cuts=0, pools=("threads", "prefork")),
        "ledger flushed, then cut": Fault(ledger_flushed, ledgers=(True,)),
        "ledger away, then cut": Fault(ledger_away, ledgers=(True,)),
        "child kill -9": Fault(child_killed, pools=("prefork",), kills=1, cuts=0),
        "SIGTERM": Fault(terminated, pools=("threads", "prefork"), cuts=0, buries=False),
        "SIGTERM, then cut": Fault(terminated_and_cut, halves=1),
        "SIGQUIT": Fault(quit_, pools=("threads", "prefork"), kills=1, cuts=0),
        "SIGSTOP and SIGCONT": Fault(stopped),
        "SIGSTOP, overslept": Fault(overslept, ("redis",), cuts=0),
    }
)


class Case(NamedTuple):
    """One cell of the matrix."""

    fault: str
    broker: str
    queue_type: str
    pool: str
    tasks: tuple[str, ...]
    ledger: bool = False

    @property
    def label(self) -> str:
        queue_type = f"-{self.queue_type}" if self.queue_type else ""
        return f"{self.broker}{queue_type}{'+ledger' if self.ledger else ''}"

    @property
    def mortal(self) -> bool:
        return FAULTS[self.fault].mortal

    def __str__(self) -> str:
        return f"{self.fault}/{self.label}/{self.pool}/{'+'.join(self.tasks)}"


def cases() -> Iterator[Case]:
    """The whole matrix; with each fault all tasks in turns, and, without ledger, each alone."""
    for name, fault in FAULTS.items():
        for broker in fault.brokers:
            for queue_type in fault.queue_types if broker == "rabbitmq" else ("",):
                for pool in fault.pools:
                    for ledger in fault.ledgers:
                        alone = () if ledger else ((task,) for task in TASKS)
                        for tasks in (TASKS, *alone):
                            yield Case(name, broker, queue_type, pool, tasks, ledger)


def execute(case: Case, scene: Scene, seed: int) -> dict[str, Account]:
    """One run of a case on a scene that fits it: the accounts, by task.

    Raises:
        LawBrokenError: if what must hold does not.
    """
    return attempt(FAULTS[case.fault], case.tasks, scene, seed)


def attempt(fault: Fault, tasks: tuple[str, ...], scene: Scene, seed: int) -> dict[str, Account]:
    """The same, of any fault."""
    run = Run(scene, tasks, Random(seed))
    scene.ready()
    if fault.mortal:
        scene.age()
    run.begin()
    try:
        fault.act(run)
    finally:
        run.gate.open()
        scene.proxy.release()
    scene.settle()
    accounts = {task: scene.account(ids) for task, ids in run.ids.items()}
    for task, account in accounts.items():
        account.check(fault.allowed(scene, (task,)))
    scene.account(run.all_ids).check(fault.allowed(scene, tasks))
    return accounts
