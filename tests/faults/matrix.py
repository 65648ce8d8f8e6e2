"""The faults, each with what it is tried on."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random
from typing import NamedTuple

from tests.faults import stage
from tests.faults.accounting import Account, LawBrokenError
from tests.faults.acts import broker, ledger, network, worker
from tests.faults.fault import EVERY, Fault
from tests.faults.run import Run
from tests.faults.scene import QUEUES, Scene

EITHER = ("", "ledger")
"""Without, and with one."""
POSTGRESQL = ("ledger on PostgreSQL",)
POOLS = ("threads", "prefork")
WHENS: tuple[network.When, ...] = ("before", "after")

_DEAD = b"dead-letters"
_AMQP = (
    {
        f"cut {when} {method}": Fault(partial(network.cut_at, method, when, most), ("rabbitmq",))
        for method, most in (("deliver", 20), ("ack", 20))
        for when in WHENS
    }
    | {
        f"cut {when} {method}": Fault(
            partial(network.cut_at_again, method, when, containing), ("rabbitmq",), cuts=2
        )
        for method, containing in (
            ("consume", QUEUES[0].encode()),
            ("publish", _DEAD),
            ("confirm", b""),
        )
        for when in WHENS
    }
    | {
        f"channel closed {when} ack": Fault(
            partial(network.cut_at, "ack", when, 20, action="close"), ("rabbitmq",), tasks=EVERY
        )
        for when in WHENS
    }
    | {
        f"channel closed {when} publish": Fault(
            partial(network.cut_at_again, "publish", when, _DEAD, action="close"),
            ("rabbitmq",),
            cuts=2,
        )
        for when in WHENS
    }
)
_REDIS = {
    f"cut {when} {command}": Fault(fault, ("redis",), cuts=2)
    for when in WHENS
    for command, fault in {
        "fetch (EVALSHA)": partial(network.cut_at, "EVALSHA", when, 4),
        "ack (ZREM)": partial(network.cut_at, "ZREM", when, 10),
        "move (EVAL)": partial(network.cut_at_again, "EVAL", when, _DEAD),
    }.items()
} | {
    f"no answer to {name} ({command})": Fault(
        partial(network.answer_lost, command, most), ("redis",), tasks=EVERY
    )
    for name, command, most in (("fetch", "EVALSHA", 4), ("ack", "ZREM", 10))
}
_BROKER = {
    "broker kill -9": Fault(broker.broker_killed, mortal=True),
    "broker restart": Fault(broker.broker_restarted, mortal=True),
    "queue deleted": Fault(
        broker.queue_deleted, ("rabbitmq",), queue_types=("classic",), deletes=True
    ),
    "flushed": Fault(broker.flushed, ("redis",), deletes=True),
    "consumer_timeout": Fault(
        broker.channel_timed_out, ("rabbitmq",), tasks=EVERY, stage=stage.IMPATIENT
    ),
    "consumer_timeout, given back before": Fault(
        broker.given_back_in_time,
        ("rabbitmq",),
        cuts=0,
        buries=False,
        tasks=EVERY,
        stage=stage.TIMELY,
    ),
    "delivery limit": Fault(
        broker.given_back_often,
        ("rabbitmq",),
        queue_types=("quorum",),
        cuts=0,
        buries=False,
        ends=True,
        tasks=EVERY,
        stage=stage.COUNTED,
    ),
}
_LEDGER = {
    "ledger flushed, then cut": Fault(ledger.flushed, ledgers=("ledger",)),
    "ledger away, then cut": Fault(ledger.away, ledgers=("ledger",)),
    "mixed fleet, then cut": Fault(partial(ledger.mixed, network.cut), ledgers=("ledger",)),
    "mixed fleet, then kill -9": Fault(
        partial(ledger.mixed, worker.killed), kills=1, cuts=0, ends=True, ledgers=("ledger",)
    ),
    "mixed fleet, then kill -9 of who has no ledger": Fault(
        ledger.mixed_and_killed, kills=1, cuts=0, ledgers=("ledger",)
    ),
    "other expiry, then kill -9": Fault(
        ledger.expiry_changed, kills=1, cuts=0, ledgers=("ledger", *POSTGRESQL)
    ),
    "ledger's clock steps ahead, then cut": Fault(
        partial(ledger.clock_stepped, ledger.AHEAD), ledgers=POSTGRESQL
    ),
    "ledger's clock steps back, then cut": Fault(
        partial(ledger.clock_stepped, -ledger.AHEAD), ledgers=POSTGRESQL
    ),
    "ledger's clock steps ahead and back, then cut": Fault(
        ledger.clock_stepped_and_back, ledgers=POSTGRESQL
    ),
}
_WORKER = {
    "worker kill -9": Fault(worker.killed, kills=1, cuts=0, ends=True, pools=POOLS, ledgers=EITHER),
    "worker kill -9, buffered": Fault(
        worker.killed_buffered, cuts=0, ends=True, pools=POOLS, keyed=False
    ),
    "worker kill -9, acknowledged": Fault(
        worker.killed_acknowledged, kills=1, cuts=0, ends=True, pools=("prefork",)
    ),
    "worker kill -9, working": Fault(
        worker.killed_working, kills=1, cuts=0, ends=True, pools=POOLS
    ),
    "worker kill -9, done": Fault(worker.killed_done, cuts=0, ends=True, pools=POOLS),
    "child kill -9": Fault(worker.child_killed, pools=("prefork",), kills=1, cuts=0),
    "SIGTERM": Fault(worker.terminated, pools=POOLS, cuts=0, buries=False, ends=True),
    "SIGTERM, then cut": Fault(worker.terminated_and_cut, halves=1, ends=True),
    "SIGQUIT": Fault(worker.quit_, pools=POOLS, kills=1, cuts=0, ends=True),
    "SIGSTOP and SIGCONT": Fault(worker.stopped),
    "SIGSTOP, overslept": Fault(worker.overslept, ("redis",), cuts=0, keyed=False),
}

FAULTS: dict[str, Fault] = (
    {
        "cut": Fault(network.cut, ledgers=EITHER),
        "cut, and again amid the reconnect": Fault(
            network.flapping, cuts=1 + network.FLAPS, tasks=EVERY
        ),
    }
    | _AMQP
    | _REDIS
    | {
        "black hole, then cut": Fault(partial(network.held, "up")),
        "deaf, then cut": Fault(partial(network.held, "down")),
        "slow, then cut": Fault(network.slow),
        "silence": Fault(network.silent, stage=stage.BRIEF),
    }
    | _BROKER
    | _LEDGER
    | _WORKER
)


class Case(NamedTuple):
    """One cell of the matrix."""

    fault: str
    broker: str
    queue_type: str
    pool: str
    tasks: tuple[str, ...]
    ledger: str = ""

    @property
    def label(self) -> str:
        queue_type = f"-{self.queue_type}" if self.queue_type else ""
        return f"{self.broker}{queue_type}{f'+{self.ledger}' if self.ledger else ''}"

    @property
    def mortal(self) -> bool:
        return FAULTS[self.fault].mortal

    @property
    def stage(self) -> stage.Stage:
        return FAULTS[self.fault].stage

    def __str__(self) -> str:
        return f"{self.fault}/{self.label}/{self.pool}/{'+'.join(self.tasks)}"


_PUSHED = (" deliver", " consume", "limit", "consumer_timeout", "SIGTERM, then cut", "9, done")
"""What hurts who is pushed messages, or holds many: not who shares a queue of RabbitMQ's by key."""


def _types(name: str, fault: Fault, kind: str) -> tuple[str, ...]:
    """On which kinds of queue a fault is tried."""
    types = fault.queue_types if kind == "rabbitmq" else ("",)
    pushed = kind == "rabbitmq" and any(word in name for word in _PUSHED)
    return (*types, "keyed") if fault.keyed and not pushed else types


def cases() -> Iterator[Case]:
    """The whole matrix; with each fault all tasks in turns, and, without ledger, each alone."""
    for name, fault in FAULTS.items():
        for kind in fault.brokers:
            for queue_type in _types(name, fault, kind):
                for pool in fault.pools:
                    for beside in fault.ledgers:
                        alone = () if beside else ((task,) for task in fault.tasks)
                        for tasks in (fault.tasks, *alone):
                            yield Case(name, kind, queue_type, pool, tasks, beside)


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
    if not (fault.ends or run.worker_process.running):
        raise LawBrokenError(f"the worker has died:\n{run.worker_process.log()}")
    accounts = {task: scene.account(ids) for task, ids in run.ids.items()}
    together = scene.account(run.all_ids)
    try:
        for task, account in accounts.items():
            account.check(fault.allowed(scene, (task,), run.lost_its_ledger))
        together.check(fault.allowed(scene, tasks, run.lost_its_ledger))
    except LawBrokenError as error:
        told = scene.told(together.started_twice | together.lost | together.dead_started)
        raise LawBrokenError(f"{error}\n{told}") from None
    return accounts
