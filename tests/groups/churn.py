"""Workers of a group come, go, die and sleep under a stream of messages; what must hold meanwhile.

Messages are numbered by key, and there are always some that wait, so that each fault meets work.
"""

from __future__ import annotations

import os
import signal
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import sub
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Any, NamedTuple

import psutil
from kombu import Connection

from celery_fair.core.groups.assignment import partition_of
from celery_fair.dead_letters.death import dead_letter_queue
from tests.brokers import Space
from tests.groups.fleet import QUEUE, Fleet, check_told
from tests.records import RecordFile
from tests.waiting import wait_for
from tests.workers import StartWorker, WorkerProcess

PARTITIONS = 6
SLOTS = 4
NAP = 0.05
STILL = 1
"""Seconds: who stood still for less has not been overtaken in the meantime, as leases are renewed
when more than that is left."""


def _keys(each: int) -> list[str]:
    """So many of each partition."""
    names = [f"customer{number}" for number in range(20 * each * PARTITIONS)]
    by_partition = (
        [name for name in names if partition_of(name, PARTITIONS) == number]
        for number in range(PARTITIONS)
    )
    return [name for found in by_partition for name in found[:each]]


KEYS = _keys(2)
BACKLOG = 6 * len(KEYS)


@dataclass(frozen=True)
class Case:
    """What workers consume, and how.

    Attributes:
        broker: "rabbitmq" or "redis".
        task: "keyed_once" is non-repeatable, "keyed" is not.
        queue_type: of RabbitMQ.
        visibility: the timeout after which what a worker holds that is gone comes back; on Redis.
    """

    broker: str
    fetch: str
    task: str
    queue_type: str = "classic"
    visibility: float = 2

    def __str__(self) -> str:
        kind = f" {self.queue_type}" if self.broker == "rabbitmq" else ""
        return f"{self.broker}{kind}/{self.fetch}/{self.task}"

    @property
    def is_once(self) -> bool:
        return self.task == "keyed_once"

    @property
    def keeps_order(self) -> bool:
        """Quorum queues put what is given back behind what waits."""
        return (self.fetch, self.queue_type) != ("push", "quorum")

    @property
    def acks_late(self) -> bool:
        """What was taken ahead is in its place when the successor is let in; so nothing is lost."""
        return self.fetch == "push" and not self.is_once

    @property
    def conf(self) -> dict[str, Any]:
        conf: dict[str, Any] = {"fair_queues": {QUEUE: {"fetch": self.fetch}}}
        conf["task_acks_late"] = self.acks_late
        return conf | (self._redis if self.broker == "redis" else self._rabbitmq)

    @property
    def _redis(self) -> dict[str, Any]:
        restoring = {"unacked_restore_interval": 1, "unacked_mutex_expire": 3}
        return {
            "broker_transport_options": {"visibility_timeout": self.visibility, **restoring},
        }

    @property
    def _rabbitmq(self) -> dict[str, Any]:
        return {
            "broker_heartbeat": 2,  # so that it soon gives up a worker that stands still
            "task_create_missing_queue_type": self.queue_type,
            "broker_native_delayed_delivery_queue_type": "classic",
        }


CASES = [
    Case("rabbitmq", "pull", "keyed_once"),
    Case("redis", "pull", "keyed_once"),
    Case("rabbitmq", "push", "keyed"),
    Case("rabbitmq", "push", "keyed", "quorum"),
    Case("rabbitmq", "pull", "keyed_once", "quorum"),
    Case("rabbitmq", "pull", "keyed"),
    Case("redis", "pull", "keyed"),
]


class Numbered(NamedTuple):
    """A message."""

    key: str
    number: int


def numbered(event: Mapping[str, Any]) -> Numbered:
    return Numbered(event["key"], event["number"])


class Victim(NamedTuple):
    """A worker that was killed or stood still, and what it owned then."""

    hostname: str
    partitions: frozenset[str]


class Stream:
    """Publishes so that there is always a backlog, in a thread."""

    def __init__(self, fleet: Fleet, task: str) -> None:
        self.published = 0
        self._fleet, self._task = fleet, task
        self._began = RecordFile(fleet.records.started.path)
        self._stopped = Event()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stopped.is_set():
            if self.published - len(self._began) >= BACKLOG:
                self._stopped.wait(0.05)
                continue
            for key in KEYS:
                self._fleet.send(key, number, self._task, seconds=NAP)
                self.published += 1
            number += 1

    def stop(self) -> int:
        """Return how many it has published."""
        self._stopped.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), "a message takes a minute to publish"
        return self.published


class Churn:
    """Some workers at first, and what becomes of them.

    Attributes:
        took: by what happened, the seconds until all partitions were owned again.
        queued: as many seconds, for which one of the workers waited for a processor meanwhile.
    """

    def __init__(
        self,
        case: Case,
        space: Space,
        store: str,
        start: StartWorker,
        folder: Path,
        workers: int = 3,
    ) -> None:
        self.took: dict[str, list[float]] = defaultdict(list)
        self.queued: dict[str, list[float]] = defaultdict(list)
        self.victims: list[Victim] = []
        self.fleet = Fleet(space, start, folder, store, PARTITIONS)
        self.fleet.conf |= case.conf
        self._case, self._space = case, space
        self._may_be_late = 0
        self._dead: Counter[Numbered] = Counter()
        self.workers = [self.fleet.worker() for _ in range(workers)]
        self._settled()
        self._stream = Stream(self.fleet, case.task)

    def join(self) -> None:
        """From when it is ready."""
        self.workers.append(self.fleet.worker())
        self._time("joined", monotonic())

    def stop(self) -> None:
        """SIGTERM; its partitions are free when it has ended."""
        assert self.workers.pop(0).stop() == 0
        self._time("stopped", monotonic())

    def kill(self) -> None:
        victim = self.workers.pop(0)
        self._wait_at_work(victim)
        self._note_victim(victim)
        began = monotonic()
        victim.kill()
        self._time("killed", began)

    def freeze(self) -> None:
        """SIGSTOP in the midst of work, until others are at work on the same; then SIGCONT."""
        victim = self.workers.pop(0)
        began = self._stand_still(victim)
        try:
            open_ = self._at_work(victim)
            self._note_victim(victim)
            self._may_be_late += self._idle(victim, open_)
            self._time("stood still", began)
            wait_for(
                lambda: self._overtaken(open_), 30, lambda: f"others at {open_}: {self._state()}"
            )
        finally:
            os.kill(victim.pid, signal.SIGCONT)
        self.workers.append(victim)
        self._time("went on", monotonic())

    def _stand_still(self, victim: WorkerProcess) -> float:
        process = psutil.Process(victim.pid)

        def caught() -> float:
            began = monotonic()
            os.kill(victim.pid, signal.SIGSTOP)
            wait_for(lambda: process.status() == psutil.STATUS_STOPPED, 10, "SIGSTOP")
            open_ = self._at_work(victim)
            if open_ and self.fleet.database.is_free():
                return began
            if monotonic() - began > STILL:
                self._may_be_late += self._idle(victim, open_)
            os.kill(victim.pid, signal.SIGCONT)
            return 0.0

        return float(wait_for(caught, 30, lambda: f"{victim.hostname} at work: {self._state()}"))

    def _wait_at_work(self, worker: WorkerProcess) -> None:
        wait_for(
            lambda: self._at_work(worker),
            30,
            lambda: f"{worker.hostname} at work: {self._state()}",
        )

    def _at_work(self, worker: WorkerProcess) -> dict[str, int]:
        """By partition, the tokens of what a worker has begun and not ended."""
        open_: dict[str, tuple[str, int]] = {}
        for event in self.fleet.events:
            if event["kind"] == "began" and event["worker"] == worker.hostname:
                open_[event["id"]] = event["partition"], event["token"]
            elif event["kind"] == "ended":
                open_.pop(event["id"], None)
        return dict(open_.values())

    def _idle(self, worker: WorkerProcess, at_work: Collection[str]) -> int:
        """How many partitions a worker owns that it is not at work on; it may be on others'."""
        return len(self.fleet.owned(worker)[worker.hostname].difference(at_work))

    def _overtaken(self, tokens: dict[str, int]) -> bool:
        newest = self.fleet.database.tokens()
        return all(newest.get(partition, 0) > token for partition, token in tokens.items())

    def _note_victim(self, worker: WorkerProcess) -> None:
        owned = self.fleet.owned(worker)[worker.hostname]
        self.victims.append(Victim(worker.hostname, frozenset(owned)))

    def _time(self, what: str, began: float) -> None:
        before = queued(self.workers)
        self._settled()
        self.queued[what].append(max(map(sub, queued(self.workers), before)))
        assigned = [event["at"] for event in self.fleet.events if event["kind"] == "assigned"]
        self.took[what].append(max(0.0, max(assigned) - began))

    def longest(self, what: str) -> float:
        """The most seconds that something took, on a machine that does nothing else."""
        return max(map(sub, self.took[what], self.queued[what]))

    def _settled(self) -> None:
        least, more = divmod(PARTITIONS, len(self.workers))
        counts = [least + (place < more) for place in range(len(self.workers))]
        self.fleet.wait_counts(counts, *self.workers)

    def check(self) -> None:
        """When all is done, see what was started, in which order, and where.

        Of each partition of a worker that stood still, one message may have been on its way.
        """
        each = self.drain() // len(KEYS)
        self._end()
        skipped = check_order(self.fleet, each, self.victims, self._case.keeps_order)
        if self._case.acks_late:
            assert not skipped
        if self._case.is_once:
            assert not again(self.fleet), "begun twice"
        check_skipped(skipped - self._dead.keys() - overtaken(self.fleet), self.victims)
        check_effects(self.fleet)
        check_told(self.fleet, {victim.hostname for victim in self.victims})
        found = late(self.fleet)
        assert len(found) <= self._may_be_late, (self._may_be_late, found)

    def drain(self) -> int:
        """No more is published; wait until all has begun, or is a dead letter; return how many.

        Each slot of a worker that was killed may have been about to begin one that is lost.
        """
        published = self._stream.stop()
        lost = 0 if self._case.acks_late else SLOTS * len(self.victims)
        wait_for(
            lambda: (
                not left(self._space)
                and self._ids() + dead_letters(self._space, self._dead).total() + lost >= published
            ),
            60,
            lambda: (
                f"all of {published}: {self._ids()} began, {self._dead.total()} dead;"
                f" {self._state()}"
            ),
            interval=0.1,
        )
        return published

    def _end(self) -> None:
        """Let what the workers have taken begin, and end: from then on each reading is the last."""
        for worker in self.workers:
            worker.sigterm()
        assert [worker.wait() for worker in self.workers] == [0] * len(self.workers)

    def __str__(self) -> str:
        refused = sum(event["kind"] == "refused" for event in self.fleet.events)
        return f"{self._ids()} began, {again(self.fleet).total()} again, {refused} refused"

    def _ids(self) -> int:
        return len(begun_ids(self.fleet))

    def _state(self) -> str:
        logs = "\n".join(worker.log()[-3000:] for worker in self.workers)
        return f"left: {left(self._space)}\n{logs}"


def began(fleet: Fleet) -> list[dict[str, Any]]:
    return [event for event in fleet.events if event["kind"] == "began"]


def begun_ids(fleet: Fleet) -> set[str]:
    return {event["id"] for event in began(fleet)}


def again(fleet: Fleet) -> Counter[str]:
    """Of what began more than once, how often more; by one reading, for others may begin now."""
    ids = [event["id"] for event in began(fleet)]
    return Counter(ids) - Counter(set(ids))


def overtaken(fleet: Fleet) -> set[Numbered]:
    """What began, but so late that the database did not let it in."""
    counted = {effect.message for effect in fleet.database.effects()}
    return {numbered(event) for event in began(fleet) if event["id"] not in counted}


def late(fleet: Fleet) -> list[dict[str, Any]]:
    """What began when somebody else had already begun something of the same partition."""
    newest: dict[str, int] = {}
    found = []
    for event in began(fleet):
        partition, token = event["partition"], event["token"]
        if token < newest.get(partition, 0):
            found.append(event)
        newest[partition] = max(token, newest.get(partition, 0))
    return found


def left(space: Space) -> dict[str, int]:
    depths = space.depths()
    names = (QUEUE, "unacked")
    return {name: sum(d) for name, d in depths.items() if name.startswith(names) and sum(d)}


def dead_letters(space: Space, seen: Counter[Numbered]) -> Counter[Numbered]:
    """Take them out, and count them."""
    with Connection(space.url) as connection, connection.channel() as channel:
        queue = dead_letter_queue("dead-letters")(channel)
        queue.declare()
        while (message := queue.get()) is not None:
            message.ack()
            _, key, number = message.payload[0]
            seen[Numbered(key, number)] += 1
    return seen


def check_order(
    fleet: Fleet, each: int, victims: Sequence[Victim], keeps_order: bool = True
) -> set[Numbered]:
    """Of what counts, the messages of each key began one after another; return those left out.

    None began before one of its key that was published earlier, and none again: but for that which
    a worker had begun that was then killed, or stood still; it may begin again before the next.

    Arguments:
        each: messages of each key that were published.
        keeps_order: whether the order is promised; else only what has begun is looked at.
    """
    gone = {victim.hostname for victim in victims}
    messages = {(event["id"], event["token"]): event for event in began(fleet)}
    last: dict[str, dict[str, Any]] = {}
    left_out = {Numbered(key, number) for key in KEYS for number in range(each)}
    for partition, token, kind, message in fleet.database.effects():
        if kind != "began":
            continue
        event = messages[message, token]
        before = last.get(event["key"], {"number": -1, "worker": ""})
        is_again = event["number"] == before["number"] and before["worker"] in gone
        in_order = event["number"] > before["number"] or is_again
        assert in_order or not keeps_order, f"{event} in {partition} after {before}"
        last[event["key"]] = event
        left_out.discard(numbered(event))
    return left_out


def check_skipped(left_out: Collection[Numbered], victims: Sequence[Victim]) -> None:
    """Nobody knows of them: each is one that a victim had acknowledged, and was about to begin.

    It can have been one in each of its partitions, and no more than it had slots.
    """
    lost = Counter(f"{QUEUE}.{partition_of(key, PARTITIONS)}" for key, _ in left_out)
    could = Counter(partition for victim in victims for partition in victim.partitions)
    assert lost <= could, f"{left_out}, of {could} at the most"
    assert lost.total() <= SLOTS * len(victims), left_out


def queued(workers: Sequence[WorkerProcess]) -> list[float]:
    """Return the seconds for which each worker's threads waited for a processor."""
    return [sum(map(_queued, Path(f"/proc/{w.pid}/task").glob("*/schedstat"))) for w in workers]


def _queued(schedstat: Path) -> float:
    with suppress(OSError):  # the thread has ended
        return int(schedstat.read_text().split()[1]) / 1e9
    return 0.0


def check_effects(fleet: Fleet) -> None:
    """Of what the database let in: one work at a time in each partition, as long as it counted."""
    newest: dict[str, int] = {}
    at_work: dict[str, str] = {}
    for partition, token, kind, message in fleet.database.effects():
        assert token >= newest.get(partition, 0)
        if kind == "ended":
            assert at_work[partition] == message
            at_work[partition] = ""
        else:
            if token == newest.get(partition):
                assert at_work[partition] == "", f"{at_work[partition]} and {message}"
            newest[partition], at_work[partition] = token, message
