"""A worker behind a proxy, at a place on a broker of its own: where faults happen.

A scene outlives a run: a worker that has survived is the next run's victim. One
that has not is replaced, and the new one drains what the other has left.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import psutil
import redis
from celery import Celery
from kombu import Connection, Queue

from celery_fair.dead_letters.death import dead_letter_queue
from celery_fair.headers import LEDGER, PUBLISHED
from celery_fair.ledger import fingerprint
from tests.apps.recorder import Record
from tests.brokers import RedisServer, Space
from tests.brokers.control import ControlError
from tests.brokers.door import Door
from tests.faults.accounting import Account
from tests.faults.proxy import Proxy
from tests.integration.depths import REDIS_HASH, left
from tests.integration.gate import Gate
from tests.publishing import publish
from tests.records import Records
from tests.waiting import wait_for
from tests.workers import BACK_WITHIN, StartWorker, WorkerProcess, starting_workers

QUEUES = ["faults-a", "faults-b"]
OPTIONS = "broker_transport_options"
CONF: dict[str, Any] = {
    "fair_queues": {"faults-a": {"quantum": 1}, "faults-b": {"quantum": 3}},
    # On Redis what a lost worker held comes back in two or three seconds.
    OPTIONS: {
        "visibility_timeout": 2,
        "unacked_restore_interval": 1,
        # Who is cut off while it restores keeps the others from it for so long.
        "unacked_mutex_expire": 3,
    },
    # Beside a quorum queue, Celery declares 28 queues for ETAs. As quorum queues themselves they
    # take the broker seconds at every return, and those that are too young then have no leader.
    "broker_native_delayed_delivery_queue_type": "classic",
}
NAP = 0.02
"""Seconds of work in a task, so that some run when the fault comes."""
HELD = 12
"""Messages: enough for all slots and for all windows."""
AGE = 8
"""Seconds: a younger quorum queue can vanish with its node."""
PROBE = 5
"""Seconds until another probe is sent."""
SETTLES_WITHIN = 60


class Scene:
    """See the module.

    Arguments:
        queue_type: "classic" or "quorum" on RabbitMQ; of no meaning on Redis.
        door: by which workers reach the broker; the broker's own without one.
        conf: more settings of theirs.
        python: theirs.
    """

    def __init__(
        self,
        space: Space,
        folder: Path,
        *,
        queue_type: str = "classic",
        pool: str = "threads",
        concurrency: int = 2,
        ledger: bool = False,
        door: Door | None = None,
        conf: Mapping[str, Any] | None = None,
        python: str = sys.executable,
    ) -> None:
        self.space, self.pool, self.concurrency = space, pool, concurrency
        self._door, self._python = door or space, python
        self._settings = _merged(CONF, conf or {}, door.conf if door else {})
        self.queue_type = queue_type if space.kind == "rabbitmq" else ""
        self.records = Records(folder / "tasks")
        self._stack = ExitStack()
        self.proxy = self._stack.enter_context(Proxy(self._door))
        self._ledger = self._stack.enter_context(_running_ledger()) if ledger else None
        self._start: StartWorker = self._stack.enter_context(starting_workers(folder))
        self._worker: WorkerProcess | None = None
        self._second: WorkerProcess | None = None
        self._dead: Counter[str] = Counter()
        self._published: set[str] = set()
        self._declare()
        self._declared = time.monotonic()

    @property
    def _arguments(self) -> dict[str, Any]:
        return {"x-queue-type": self.queue_type} if self.queue_type else {}

    @property
    def _conf(self) -> dict[str, Any]:
        if self._ledger is None:
            return self._settings
        return self._settings | {
            "fair_ledger": self._ledger.url,
            "fair_ledger_since": "2000-01-01T00:00:00Z",
        }

    @property
    def ledger(self) -> Space:
        """Where claims are kept, in a Redis of the scene's own."""
        assert self._ledger is not None, "this scene has no ledger"
        return self._ledger

    @property
    def worker(self) -> WorkerProcess:
        """The victim; a new one if there is none, or none any more."""
        if self._worker is None or not self._worker.running:
            if self._worker is not None:
                self._worker.end()
            self._worker = self._new(self.proxy.url)
        return self._worker

    def second(self) -> WorkerProcess:
        """One more, straight at the broker, until `settle`."""
        self._second = self._new(self._door.url)
        return self._second

    def _new(self, url: str) -> WorkerProcess:
        return self._start(
            url,
            app="tests.apps.once",
            pool=self.pool,
            concurrency=self.concurrency,
            queues=QUEUES,
            queue_arguments=self._arguments,
            conf=self._conf,
            records=self.records,
            python=self._python,
        )

    def _declare(self) -> None:
        publish(self.space.url, dict.fromkeys(QUEUES, 0), queue_arguments=self._arguments)

    def publish(self, count: int, task: str, gate: str = "", queue: str = "") -> list[str]:
        """Straight to the broker; to both queues, unless one is named. All are confirmed."""
        each = {QUEUES[0]: count - count // 2, QUEUES[1]: count // 2}
        if queue:
            each = {queue: count}
        headers: dict[str, Any] = {PUBLISHED: time.time()}
        if self._ledger is not None:
            headers[LEDGER] = fingerprint(self._ledger.url)
        ids = self._send(each, task, [gate, NAP], headers)
        self._published.update(ids)
        return ids

    def _send(
        self, each: dict[str, int], task: str, args: list[Any], headers: dict[str, Any]
    ) -> list[str]:
        options: Any = {"queue_arguments": self._arguments, "headers": headers}
        return publish(self.space.url, each, task, args, **options).all()

    def ready(self) -> None:
        """Wait until the victim works."""
        self.worker  # noqa: B018
        self._probe(30)
        if self._ledger is not None:
            self._trust(self._ledger)

    @staticmethod
    def _trust(ledger: Space) -> None:
        """Nothing is under way, so the ledger may as well be an hour old: what it knows counts."""
        with redis.Redis.from_url(ledger.url) as client:
            client.hset("celery-fair:ledger", "at", time.time() - 3600)

    def age(self) -> None:
        """Wait until the queues are old enough to survive their node."""
        if self.queue_type == "quorum":
            Event().wait(max(0.0, self._declared + AGE - time.monotonic()))

    def settle(self) -> None:
        """Wait until nothing is at the broker and nothing runs; the worker then still works."""
        self.worker  # noqa: B018
        self._probe(BACK_WITHIN)
        self.drained()
        if self._second is not None:
            self._second.stop()
            self._second = None
        wait_for(lambda: not self.running(), SETTLES_WITHIN, lambda: f"the end of {self.running()}")

    def drained(self) -> None:
        """Wait until nothing is at the broker."""
        wait_for(
            self._empty,
            SETTLES_WITHIN,
            lambda: f"empty queues: {self.space.depths()}\n{self._logs()}",
            interval=0.05,
        )

    def _empty(self) -> bool:
        try:
            return left(self.space, *QUEUES) == 0
        except ControlError:  # the queue has no leader yet: its node has just returned
            return False

    def _logs(self) -> str:
        workers = filter(None, (self._worker, self._second))
        return "\n".join(worker.log()[-5000:] for worker in workers)

    def delete(self, queue: str) -> None:
        """The queue, with what is in it."""
        with Connection(self.space.url) as connection, connection.channel() as channel:
            channel.queue_delete(queue)

    def _probe(self, timeout: float) -> None:
        """What is published now is done soon: the worker consumes from both queues.

        A probe may fall victim to a connection whose loss is still under way; another may not.
        """
        deadline = time.monotonic() + timeout
        while True:
            ids = self.publish(len(QUEUES), "before")
            try:
                self.records.finished.wait_ids(ids, PROBE)
            except TimeoutError as error:
                if time.monotonic() >= deadline:
                    state = f"{self.space.depths()}\n{self._logs()}"
                    raise TimeoutError(f"{error}\n{state}") from None
            else:
                return

    def buffered(self) -> None:
        """Wait until something waits in the victim, all slots of which are held."""
        name = self.worker.hostname
        with Celery("asking", broker=self.space.url, set_as_current=False) as client:
            inspector = client.control.inspect(destination=[name], timeout=5)

            def waiting() -> int:
                queues = (inspector._request("fair_status") or {}).get(name, {})
                return sum(queue["buffered"] for queue in queues.values())

            wait_for(waiting, 30, lambda: f"messages to be buffered\n{self._logs()}")

    def running(self) -> list[Record]:
        """Tasks that have started and may still end."""
        ended = {record.id for record in self.records.finished.read()}
        open_ = [record for record in self.records.started.read() if record.id not in ended]
        return [record for record in open_ if psutil.pid_exists(record.pid)]

    def dead_letters(self) -> Counter[str]:
        """How many dead letters there have been, by task id."""
        with Connection(self.space.url) as connection, connection.channel() as channel:
            queue = dead_letter_queue("dead-letters")(channel)
            queue.declare()
            while (message := queue.get()) is not None:
                message.ack()
                self._dead[message.headers["id"]] += 1
        assert self._dead.keys() <= self._published, "dead letters that nobody has published"
        return self._dead

    def waiting(self) -> list[str]:
        """What the broker has in the queues, or has given to a worker, by task id."""
        with Connection(self.space.url) as connection, connection.channel() as channel:
            if self.space.kind == "redis":
                return list(_in_redis(channel.client))
            held = [iter(Queue(name)(channel).get, None) for name in QUEUES]
            return [message.headers["id"] for message in chain.from_iterable(held)]

    def account(self, ids: Collection[str]) -> Account:
        """Where these messages went, when nothing runs any more."""
        return Account.of(ids, self.records, self.dead_letters(), self.waiting())

    def end(self) -> None:
        self._stack.close()


def _merged(*conf: Mapping[str, Any]) -> dict[str, Any]:
    """Settings, of which the last says most; of the transport's options each by itself."""
    options = {name: value for one in conf for name, value in one.get(OPTIONS, {}).items()}
    return {name: value for one in conf for name, value in one.items()} | {OPTIONS: options}


def _in_redis(client: Any) -> Iterator[str]:
    stored = [json.loads(raw) for name in QUEUES for raw in client.lrange(name, 0, -1)]
    stored += [json.loads(raw)[0] for raw in client.hvals(REDIS_HASH)]
    return (message["headers"]["id"] for message in stored)


@contextmanager
def _running_ledger() -> Iterator[Space]:
    server = RedisServer()
    try:
        server.start()
        server.wait_ready()
        yield server.space()
    finally:
        server.end()


class Run:
    """One fault among a number of messages.

    Arguments:
        tasks: the names of the tasks that take turns.
    """

    def __init__(self, scene: Scene, tasks: Sequence[str], rng: Random, count: int = 40) -> None:
        self.scene, self.rng = scene, rng
        self._count, self._tasks = count, list(tasks)
        self.gate = Gate()
        self.ids: dict[str, list[str]] = {task: [] for task in tasks}
        self._held: list[str] = []

    def begin(self) -> None:
        """From now on `worker_process` is the victim, dead or alive."""
        self.worker_process = self.scene.worker

    @property
    def kind(self) -> str:
        return self.scene.space.kind

    @property
    def proxy(self) -> Proxy:
        return self.scene.proxy

    @property
    def all_ids(self) -> list[str]:
        return [task_id for ids in self.ids.values() for task_id in ids]

    def publish(self) -> None:
        """All messages, the tasks in turns."""
        left_over, turn = self._count, 4
        while left_over > 0:
            for task in self.rng.sample(self._tasks, len(self._tasks)):
                self.ids[task] += self.scene.publish(min(turn, left_over), task)
                left_over -= min(turn, left_over)

    def hold(self) -> None:
        """Publish more, none of which ends before the gate is open.

        So there is work in the worker and before it, however late the fault comes.
        """
        each, gate = HELD // len(self._tasks), str(self.gate.path)
        for task in self._tasks:
            ids = self.scene.publish(each, task, gate)
            self.ids[task] += ids
            self._held += ids

    def one_each(self, tasks: Sequence[str], times: int = 1) -> list[str]:
        """Publish one message of each task, in this order, to one queue, so many times."""
        ids = []
        for task in list(tasks) * times:
            new = self.scene.publish(1, task, queue=QUEUES[0])
            self.ids[task] += new
            ids += new
        return ids

    def occupied(self) -> None:
        """Wait until all slots are held."""
        records, slots = self.scene.records.started, self.scene.concurrency
        wait_for(lambda: len(records.times(self._held)) >= slots, 30, "the slots to be held")

    def filled(self) -> None:
        """Wait until all slots are held, and more waits in the worker."""
        self.occupied()
        self.scene.buffered()

    def buffer(self) -> None:
        """Have messages wait in the worker, and none run that counts."""
        pid, slots = self.worker_process.pid, self.scene.concurrency
        os.kill(pid, signal.SIGSTOP)  # on Redis it takes what there is when it looks
        try:
            self._held = self.scene.publish(slots, "plain", str(self.gate.path), QUEUES[0])
            self.one_each(self.shuffled(), 2)
        finally:
            os.kill(pid, signal.SIGCONT)
        self.filled()

    def shuffled(self) -> list[str]:
        """The tasks in any order."""
        return self.rng.sample(self._tasks, len(self._tasks))

    def kill(self) -> None:
        """SIGKILL for the worker and its pool."""
        self.worker_process.kill()
        self.worker_process.process.end()

    def some(self, most: int) -> int:
        return self.rng.randint(1, most)

    def moment(self) -> None:
        """Wait until some have started, and then a little: until the work is in full swing."""
        self.started(self.some(self._count // 3))
        Event().wait(self.rng.uniform(0, 0.03))

    def started(self, count: int, timeout: float = 30) -> int:
        """Wait until so many have started, or the time is up; returns how many have."""
        records, ids = self.scene.records.started, self.all_ids
        with suppress(TimeoutError):
            wait_for(lambda: len(records.times(ids)) >= count, timeout)
        return len(records.times(ids))

    def busy(self) -> list[int]:
        """The processes in which tasks run."""
        return [record.pid for record in self.scene.running()]
