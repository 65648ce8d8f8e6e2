"""What happens in a world: workers live and die, messages start, end, come again, are buried.

Times are true ones, in seconds after the world's beginning; a host's clock is off by its `skew`.
Whatever has happened once, a process has written a record of: a list in the order of writing, of
which `files` then loses some.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

__all__ = ["NOW", "SINCE", "Attempt", "Host", "Process", "Record", "World"]

NOW = 900.0
"""When the log is read."""
SINCE = 200.0
"""From when on every worker writes a log; and ten seconds more, for the clocks."""
CLOCKS = 5.0
"""As far as a clock may be off; two may differ by twice that."""
BEAT = 30.0
"""Seconds between heartbeats; three times what a worker has, for lines take time to read."""


@dataclass(eq=False)
class Host:
    name: str
    skew: float
    power_lost: float | None = None
    full: tuple[float, float] | None = None  # its disk

    def is_full(self, at: float) -> bool:
        return self.full is not None and self.full[0] <= at < self.full[1]


@dataclass(eq=False)
class Record:
    """One that was written, or was to be.

    Attributes:
        at: when, truly.
        lost: never came to the disk, or did not stay there.
        torn: a part of it did.
    """

    at: float
    kind: str
    fields: dict[str, Any]
    seq: int = 0
    lost: bool = False
    torn: bool = False


@dataclass(eq=False)
class Process:
    """One life of a process that consumes, works, or both."""

    host: Host
    node: str
    pid: int
    boot: str
    queues: list[str]
    born: float
    ended: float | None
    how: str  # exit, killed, power, or alive
    parent: Process | None = None
    works: bool = True
    logs: bool = True
    records: list[Record] = field(default_factory=list)
    dead_at: float | None = None

    @property
    def worker(self) -> Process:
        return self.parent or self

    def lives(self, at: float) -> bool:
        return self.born <= at and (self.ended is None or at < self.ended)

    def write(self, at: float, kind: str, **fields: Any) -> None:
        self.records.append(Record(at, kind, fields))


@dataclass(eq=False)
class Attempt:
    """The truth about a task's id and one number of its retries."""

    id: str
    retries: int
    queue: str
    published: float
    stamp: float | None  # by the publisher's clock, if that says when
    starts: list[tuple[float, Process]] = field(default_factory=list)
    finishes: list[float] = field(default_factory=list)
    rejections: list[float] = field(default_factory=list)


class World:
    """All that happens in one, by a seed."""

    def __init__(self, number: int, seed: int) -> None:
        self.draw = random.Random(f"{seed}:{number}")
        self.name = f"w{number}"
        self.attempts: list[Attempt] = []
        self.processes: list[Process] = []
        self.has_ledger = self.draw.random() < 0.3
        self.publisher = self._skew()
        # A calm world lets be seen what can be proven; a wild one, what cannot.
        self.wild = self.draw.random() < 0.7
        self.hosts = [self._host(n) for n in range(self.draw.choice([1, 2, 2, 3]))]
        self.queues = [f"{self.name}.q{n}" for n in range(self.draw.randint(2, 4))]
        for each in range(self.draw.randint(2, 4)):
            self._worker(each)
        if self.draw.random() < 0.2:
            self._worker_without_log()
        for each in range(self.draw.randint(6, 16)):
            self._message(each)
        for process in self.processes:
            self._signs_of_life(process)
        for process in self.processes:
            self._sweep(process)

    def _chance(self, part: float) -> bool:
        return self.draw.random() < part

    def _skew(self) -> float:
        return self.draw.choice([0.0, self.draw.uniform(-CLOCKS, CLOCKS), CLOCKS, -CLOCKS])

    def _host(self, number: int) -> Host:
        host = Host(f"{self.name}h{number}", self._skew())
        if self.wild and self._chance(0.25):
            host.power_lost = self.draw.uniform(250, 800)
        if self.wild and self._chance(0.25):
            since = self.draw.uniform(250, 800)
            host.full = since, since + self.draw.choice([2.0, 8.0, 60.0])
        return host

    # Processes --------------------------------------------------------------------

    def _worker(self, number: int) -> None:
        """One name, and the processes that bear it one after the other."""
        host = self.draw.choice(self.hosts)
        queues = self.draw.sample(self.queues, self.draw.randint(1, len(self.queues)))
        if not number:  # each queue is somebody's
            queues = list(self.queues)
        prefork = self._chance(0.5)
        pid, born = self.draw.randint(100, 140), self.draw.uniform(0, 60)
        for life in range(5):
            ended, how = self._end(host, born)
            boot = f"{self.name}b{number}x{life}"
            node = f"celery@{host.name}n{number}"
            main = Process(host, node, pid, boot, queues, born, ended, how, works=not prefork)
            self.processes.append(main)
            for slot in range(2 if prefork else 0):
                self._children(main, slot)
            if ended is None or self._chance(0.2):
                return
            born = ended + self.draw.uniform(3, 30)
            if host.is_full(born) and host.full is not None:  # it does not start
                born = host.full[1] + 1
            if born > NOW - 20:
                return
            pid = pid if self._chance(0.5) else pid + 1  # numbers are used again

    def _end(self, host: Host, born: float) -> tuple[float | None, str]:
        ended, how = None, "alive"
        if self._chance(0.6):
            ended, how = born + self.draw.expovariate(1 / 300) + 5, "exit"
            if self.wild and self._chance(0.5):
                how = "killed"
        lost = host.power_lost
        if lost is not None and born < lost and (ended is None or ended >= lost):
            return lost, "power"
        return (None, "alive") if ended is None or ended > NOW - 15 else (ended, how)

    def _children(self, main: Process, slot: int) -> None:
        born, number = main.born + self.draw.uniform(0.1, 1), 0
        while True:
            ended, how = main.ended, main.how
            if self.wild and self._chance(0.3):
                early = born + self.draw.uniform(5, 200)
                if early < (ended or NOW - 15):
                    ended, how = early, self.draw.choice(["killed", "exit"])
            boot = f"{main.boot}c{slot}x{number}"
            pid = main.pid * 100 + slot * 10 + (0 if self._chance(0.3) else number)
            if ended is None or born < ended:
                self.processes.append(
                    Process(main.host, main.node, pid, boot, main.queues, born, ended, how, main)
                )
            if ended is None or ended == main.ended or number > 5:
                return
            born, number = ended + self.draw.uniform(0.2, 2), number + 1
            if born >= (main.ended or NOW - 15):
                return

    def _worker_without_log(self) -> None:
        host = self.draw.choice(self.hosts)
        name = f"celery@{host.name}nolog"
        self.processes.append(
            Process(host, name, 99, f"{self.name}z", self.queues, 0.0, SINCE, "exit", logs=False)
        )

    # Messages ---------------------------------------------------------------------

    def _message(self, number: int) -> None:
        queue = self.draw.choice(self.queues)
        # ordinary, acknowledged late, at most once with the acknowledgement before, or after
        promise = self.draw.choice(["early", "late", "before", "before", "after"])
        published = self.draw.uniform(70, NOW - 60)
        if self._chance(0.2):  # in the midst of what goes wrong, or just after
            times = [t for h in self.hosts for t in (h.power_lost, *(h.full or ())) if t]
            if times:
                published = max(70.0, self.draw.choice(times) + self.draw.uniform(-20, 5))
        attempt = self._attempt(f"{self.name}-t{number}", 0, queue, published)
        self._deliver(attempt, promise, published, redelivered=False, times=0)

    def _attempt(self, id_: str, retries: int, queue: str, published: float) -> Attempt:
        stamp = published + self.publisher if self._chance(0.96) else None
        attempt = Attempt(id_, retries, queue, published, stamp)
        self.attempts.append(attempt)
        return attempt

    def _consumers(self, queue: str, at: float) -> list[Process]:
        return [p for p in self.processes if queue in p.queues and p.lives(at) and p.works]

    def _deliver(
        self, attempt: Attempt, promise: str, at: float, redelivered: bool, times: int
    ) -> None:
        """A worker gets the message, and judges it."""
        at += self.draw.choice([0.05, 0.5, self.draw.uniform(0, 20), self.draw.uniform(0, 80)])
        workers = self._consumers(attempt.queue, at)
        if at > NOW - 2 or times > 3:
            return
        if not workers:
            self._deliver(attempt, promise, at + 15, redelivered, times + 1)
            return
        worker = self.draw.choice(workers)
        once = promise in {"before", "after"}
        if self._chance(0.05):
            self._reject(attempt, worker, at, "unknown-task")
        elif once and redelivered and not self._proves_unstarted(attempt, worker):
            self._reject(attempt, worker, at, "redelivered")
        elif self._chance(
            0.25 if once else 0.08
        ):  # it waits in the window, and its connection goes
            self._deliver(attempt, promise, at + 1, True, times + 1)
        elif once and worker.logs and worker.host.is_full(at):
            self._deliver(attempt, promise, worker.host.full[1], False, times)  # type: ignore[index]
        else:
            self._start(attempt, promise, worker, at, redelivered, times)

    def _proves_unstarted(self, attempt: Attempt, worker: Process) -> bool:
        return self.has_ledger and worker.logs and not attempt.starts

    def _start(
        self,
        attempt: Attempt,
        promise: str,
        worker: Process,
        at: float,
        redelivered: bool,
        times: int,
    ) -> None:
        same = {"id": attempt.id, "retries": attempt.retries, "task": "t", "queue": attempt.queue}
        attempt.starts.append((at, worker))
        main = worker.worker
        if main is not worker and not any(
            r.fields.get("child") == worker.pid for r in main.records
        ):
            main.write(at + 0.01, "process", state="child", child=worker.pid)
        worker.write(
            at,
            "started",
            **same,
            published=attempt.stamp,
            redelivered=redelivered,
            repeatable=promise in {"early", "late"},
            cost_key=self.draw.choice([None, "k", 'a } {"b": 1} { "c']),
        )
        ended = at + self.draw.choice([0.1, 1.0, self.draw.uniform(0, 60)])
        if worker.ended is not None and worker.ended <= ended:
            self._broken_off(attempt, promise, worker, same, times)
            return
        if ended > NOW:
            return
        attempt.finishes.append(ended)
        retried = promise == "early" and self._chance(0.15)
        state = "RETRY" if retried else "SUCCESS"
        worker.write(ended, "finished", **same, state=state, runtime=ended - at)
        if retried:
            again = self._attempt(attempt.id, attempt.retries + 1, attempt.queue, ended)
            self._deliver(again, promise, ended, False, 0)
        elif promise in {"early", "late"} and self._chance(0.15):  # the receipt did not arrive
            since = at if promise == "early" else ended
            self._deliver(attempt, promise, since + 1, True, times + 1)

    def _broken_off(
        self, attempt: Attempt, promise: str, worker: Process, same: dict[str, Any], times: int
    ) -> None:
        """The process has ended in the midst of the task."""
        ended, main = worker.ended or NOW, worker.parent
        told = main is not None and main.lives(ended + 1)
        if told and main is not None:
            attempt.finishes.append(ended)
            lost: dict[str, Any] = {"state": "FAILURE", "broken_off": True, "runtime": 1.0}
            main.write(ended + 0.5, "finished", **same, **lost)
        if promise == "late" and not told:
            self._deliver(attempt, promise, ended + 1, True, times + 1)
        elif promise == "after":
            if told and main is not None:
                self._reject(attempt, main, ended + 0.6, "worker-lost")
            else:
                self._deliver(attempt, promise, ended + 1, True, times + 1)

    def _reject(self, attempt: Attempt, worker: Process, at: float, reason: str) -> None:
        main = worker.worker
        attempt.rejections.append(at)
        main.write(
            at,
            "rejected",
            id=attempt.id,
            retries=attempt.retries,
            task="t",
            queue=attempt.queue,
            published=attempt.stamp,
            reason=reason,
            may_have_started=True,
        )
        if self._chance(0.1):  # it is replayed
            if attempt.stamp is not None and self._chance(0.5):
                attempt.stamp = at + 5 + self.publisher
            self._deliver(attempt, "before", at + 5, False, 1)

    # Signs of life ------------------------------------------------------------------

    def _signs_of_life(self, process: Process) -> None:
        """Write boot, heartbeats and exit, among the rest; then number all."""
        for at, state in self._beats(process):
            fields: dict[str, Any] = {"state": state, "heartbeat": BEAT}
            fields["parent"] = process.worker.boot
            if process.parent is None or state == "boot":
                fields["quanta"] = dict.fromkeys(process.queues, 1.0)
            process.write(at, "process", **fields)
        ended = NOW if process.ended is None else process.ended
        process.records = [r for r in process.records if process.born <= r.at <= ended]
        process.records.sort(key=lambda record: record.at)
        dropped = 0
        for seq, record in enumerate(process.records):
            record.seq = seq
            record.lost = process.host.is_full(record.at)
            dropped += record.lost
            if record.kind == "process":
                record.fields["dropped"] = dropped
            record.torn = record.lost and self._chance(0.2)
        if process.how == "power":
            self._lose_end(process, ended)

    def _beats(self, process: Process) -> Iterator[tuple[float, str]]:
        ended = NOW if process.ended is None else process.ended
        yield process.born, "boot"
        at = process.born + BEAT
        while at < ended:
            yield at, "heartbeat"
            at += BEAT
        if process.how == "exit":
            yield ended, "exit"

    def _lose_end(self, process: Process, ended: float) -> None:
        """What was written last had not come to the disk; the first record was forced there."""
        kept = ended - self.draw.choice([0.0, 2.0, self.draw.uniform(0, 30)])
        gone = [r for r in process.records[1:] if r.at > kept]
        for record in gone:
            record.lost = True
            record.torn = False
        if gone:
            gone[0].torn = self._chance(0.5)

    def _sweep(self, process: Process) -> None:
        """Another worker on the host, if there is one later, finds that it is gone."""
        if process.how not in {"killed", "power"} or process.ended is None:
            return
        later = [
            max(other.born, process.ended)
            for other in self.processes
            if other.host is process.host
            and other.parent is None
            and other.logs
            and other is not process
            and (other.ended is None or other.ended > process.ended + 12)
        ]
        if later:
            at = min(later) + self.draw.uniform(0, 10)
            process.dead_at = at if at < NOW and not process.host.is_full(at) else None
