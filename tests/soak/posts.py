"""Workers at their posts, and what happens to them in one cycle."""

from __future__ import annotations

import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from itertools import count
from pathlib import Path
from random import Random

from celery import Celery

from tests.brokers import RabbitMQ, RedisServer, Space
from tests.faults.proxy import Proxy
from tests.groups.churn import KEYS, PARTITIONS
from tests.groups.fleet import Fleet
from tests.publishing import publish
from tests.records import Records
from tests.soak.figures import Sample, of_process
from tests.waiting import wait_for
from tests.workers import StartWorker, WorkerProcess

QUEUES = [f"q{number}" for number in range(5)]
"""Those that are cancelled and added."""
CYCLES = 4
"""So often each, in a cycle."""
CUTS = 2
PATIENCE = 60
"""Seconds after which something hangs."""


class Post(ABC):
    """One broker, reached through a proxy, and what all its workers have to go through."""

    name = ""

    def __init__(self, space: Space, seed: int) -> None:
        self.space = space
        self.proxy = Proxy(space)
        self._draw = Random(seed)
        self._numbers = count()

    workers: list[WorkerProcess]
    records: Records

    @cached_property
    def _app(self) -> Celery:
        return Celery("soak", broker=self.space.url, set_as_current=False)

    def cycle(self) -> None:
        """Cut its connections, and cancel and add its queues; at the end all has started."""
        for _ in range(CUTS):
            self._published()
            self.proxy.cut(reset=self._draw.random() < 0.7)
        self._published()
        for worker in self.workers:
            for _ in range(CYCLES):
                self._tell(worker, "cancel_consumer")
                self._tell(worker, "add_consumer")
        self._published()

    def _published(self) -> None:
        """Have messages of all queues started, and so a connection that works."""
        ids = publish(self.space.url, dict.fromkeys([*QUEUES, "celery"], 4)).all()
        try:
            self.records.started.wait_ids(ids, PATIENCE)
        except TimeoutError as exc:
            raise TimeoutError(f"{exc}; {self._state()}") from exc

    def _state(self) -> str:
        consumed = self._app.control.inspect(timeout=5).active_queues() or {}
        queues = {name: [queue["name"] for queue in found] for name, found in consumed.items()}
        logs = "\n".join(worker.log()[-3000:] for worker in self.workers)
        return f"left: {self.space.depths()}; consumed: {queues}\n{logs}"

    def _tell(self, worker: WorkerProcess, command: str) -> None:
        """Cancel or add all queues, and wait until that is done.

        A worker answers before it does it, and of two commands that are still to be carried out
        Celery's loop may take the later first.
        """
        for queue in QUEUES:
            self._ask(worker, command, queue)
        wanted = {*QUEUES} if command == "add_consumer" else set()
        wait_for(lambda: self._consumed(worker) == wanted, PATIENCE, lambda: worker.log()[-2000:])

    def _ask(self, worker: WorkerProcess, command: str, queue: str) -> None:
        def answered() -> bool:
            answers = self._app.control.broadcast(
                command,
                arguments={"queue": queue},
                destination=[worker.hostname],
                reply=True,
                timeout=5,
            )
            return bool(answers) and "ok" in answers[0][worker.hostname]

        wait_for(answered, PATIENCE, lambda: f"{command} {queue}: {worker.log()[-2000:]}")

    def _consumed(self, worker: WorkerProcess) -> set[str]:
        asking = self._app.control.inspect([worker.hostname], timeout=5)
        found = (asking.active_queues() or {}).get(worker.hostname)
        return {"?"} if found is None else {queue["name"] for queue in found} & {*QUEUES}

    @abstractmethod
    def held(self) -> Sample:
        """What the broker says that it holds for all of them."""

    def samples(self) -> Mapping[str, Sample]:
        found = {self.name: self.held()}
        for number, worker in enumerate(self.workers):
            found[f"{self.name}, worker {number}"] = of_process(worker.pid)
        return found

    def close(self) -> None:
        self._app.close()
        self.proxy.close()


class OnRabbitMQ(Post):
    """Two workers of a group, one of which falls asleep for longer than its lease.

    The second one's connection is never cut: what is lost of a connection ends with it.
    """

    name = "RabbitMQ"

    def __init__(
        self, space: Space, store: Space, start: StartWorker, folder: Path, seed: int
    ) -> None:
        super().__init__(space, seed)
        self.fleet = Fleet(space, start, folder, store.url, PARTITIONS)
        self.records = self.fleet.records
        self.workers = [self.fleet.worker(self.proxy.url), self.fleet.worker()]
        self._settled()
        for worker in self.workers:
            self._tell(worker, "add_consumer")

    def _settled(self) -> None:
        self.fleet.wait_counts([PARTITIONS // 2] * 2, *self.workers)

    def cycle(self) -> None:
        super().cycle()
        self._settled()
        sleeper = self._draw.choice(self.workers)
        awake = next(worker for worker in self.workers if worker is not sleeper)
        os.kill(sleeper.pid, signal.SIGSTOP)
        try:
            wait_for(lambda: len(self.fleet.owned(awake)[awake.hostname]) == PARTITIONS, PATIENCE)
        finally:
            os.kill(sleeper.pid, signal.SIGCONT)
        self._settled()
        began = len(self.fleet.of("ended"))
        keys = self.fleet.publish(KEYS, 1)
        wait_for(lambda: len(self.fleet.of("ended")) >= began + keys, PATIENCE)

    def held(self) -> Sample:
        server = self.space.server
        assert isinstance(server, RabbitMQ)
        return {
            "connections": int(server.control("eval", "length(rabbit_networking:connections()).")),
            "channels": int(server.control("eval", "length(rabbit_channel:list()).")),
        }


class OnRedis(Post):
    """One worker."""

    name = "Redis"

    def __init__(self, space: Space, start: StartWorker, folder: Path, seed: int) -> None:
        super().__init__(space, seed)
        self.records = Records(folder / "redis")
        self.workers = [
            start(
                self.proxy.url,
                app="tests.apps.once",
                pool="threads",
                concurrency=4,
                queues=["celery", *QUEUES],
                records=self.records,
            )
        ]

    def held(self) -> Sample:
        server = self.space.server
        assert isinstance(server, RedisServer)
        clients = server.client.client_list()
        return {"connections": sum(each["db"] == self.space.place for each in clients)}
