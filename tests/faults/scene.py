"""A worker behind a proxy, at a place on a broker of its own: where faults happen.

A scene outlives a run: a worker that has survived is the next run's victim. One
that has not is replaced, and the new one drains what the other has left.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from threading import Event
from typing import Any

import psutil
from celery import Celery
from kombu import Connection
from kombu.exceptions import OperationalError

from celery_fair.headers import FAIR_KEY, LEDGER, PUBLISHED
from celery_fair.ledger import fingerprint
from tests.apps.recorder import Record
from tests.brokers import Space
from tests.brokers.control import ControlError
from tests.brokers.door import Door
from tests.faults.accounting import Account
from tests.faults.ledgers import LEDGERS, Ledger
from tests.faults.proxy import Proxy
from tests.faults.whereabouts import taken_dead_letters, waiting
from tests.integration.depths import left
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
KEYS = ("a", "b/1", "b/2", "c")
KEYED: dict[str, dict[str, Any]] = {
    "redis": {"keys": {"a": {"max_in_flight": 1}}, "lease": 2},
    "rabbitmq": {"keys": {"a": {"weight": 3}}},
}
"""Options of queues that are shared by key."""
NAP = 0.02
"""Seconds of work in a task, so that some run when the fault comes."""
AGE = 8
"""Seconds: a younger quorum queue can vanish with its node."""
PROBE = 5
"""Seconds until another probe is sent."""
SETTLES_WITHIN = 60
AWAY = "The ledger cannot be reached"
"""What a worker says, once, before it gives back by copies what may be claimed."""


class Scene:
    """See the module.

    Arguments:
        queue_type: "classic" or "quorum" on RabbitMQ, on Redis nothing; or "keyed".
        ledger: one of `LEDGERS`, or none.
        arguments: more of the queues', on RabbitMQ.
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
        ledger: str = "",
        arguments: Mapping[str, Any] | None = None,
        door: Door | None = None,
        conf: Mapping[str, Any] | None = None,
        python: str = sys.executable,
    ) -> None:
        self.space, self.pool, self.concurrency = space, pool, concurrency
        self._door, self._python = door or space, python
        keyed: dict[str, Any] = {}
        if queue_type == "keyed":
            keyed = {"fair_keys": dict.fromkeys(QUEUES, KEYED[space.kind])}
        self._settings = _merged(CONF, keyed, conf or {}, door.conf if door else {})
        self._more_arguments = dict(arguments or {})
        self.queue_type = queue_type
        self._keys = cycle(KEYS if keyed else [None])
        self._folder = folder
        self.records = Records(folder / "tasks")
        self._stack = ExitStack()
        self.proxy = self._stack.enter_context(Proxy(self._door))
        self._ledger = LEDGERS[ledger]() if ledger else None
        if self._ledger is not None:
            self._stack.callback(self._ledger.end)
        self._start: StartWorker = self._stack.enter_context(starting_workers(folder))
        self._worker: WorkerProcess | None = None
        self._others: list[WorkerProcess] = []
        self._dead: Counter[str] = Counter()
        self._published: set[str] = set()
        self._declare()
        self._declared = time.monotonic()

    @property
    def _arguments(self) -> dict[str, Any]:
        if self.space.kind != "rabbitmq":
            return {}
        kind = "classic" if self.queue_type == "keyed" else self.queue_type
        return {"x-queue-type": kind} | self._more_arguments

    @property
    def _conf(self) -> dict[str, Any]:
        if self._ledger is None:
            return self._settings
        since = "2000-01-01T00:00:00Z"
        return self._settings | {"fair_ledger": self._ledger.url, "fair_ledger_since": since}

    @property
    def transport_options(self) -> dict[str, Any]:
        """Of the workers."""
        options: dict[str, Any] = self._settings[OPTIONS]
        return options

    @property
    def ledger(self) -> Ledger:
        """Where claims are kept."""
        assert self._ledger is not None, "this scene has no ledger"
        return self._ledger

    @property
    def worker(self) -> WorkerProcess:
        """The victim; a new one if there is none, or none any more."""
        if self._worker is None or not self._worker.running:
            if self._worker is not None:
                self._worker.end()
            self._worker = self._new(self.proxy.url, self._conf)
        return self._worker

    def another(self, without: str = "", **conf: Any) -> WorkerProcess:
        """One more, straight at the broker; ends with `settle`, if it has not been killed.

        Arguments:
            without: it has no setting whose name contains this.
            conf: settings that only this one has.
        """
        settings = {k: v for k, v in self._conf.items() if not without or without not in k}
        self._others.append(self._new(self._door.url, settings | conf))
        return self._others[-1]

    def _new(self, url: str, conf: dict[str, Any]) -> WorkerProcess:
        return self._start(
            url,
            app="tests.apps.once",
            pool=self.pool,
            concurrency=self.concurrency,
            queues=QUEUES,
            queue_arguments=self._arguments,
            conf=conf,
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
        if key := next(self._keys):
            headers[FAIR_KEY] = key
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
            self._ledger.trust()
            wait_for(self._asks_ledger, 30, self._logs, interval=0.2)

    def _asks_ledger(self) -> bool:
        """Whether the victim does: one that an earlier fault has kept from it tries after a while.

        Until then it gives back by copies what may be claimed, and a kill would leave two of them.
        """
        self._probe(30)
        log = self.worker.log()
        return log.count(AWAY) == log.count("The ledger is back")

    def age(self) -> None:
        """Wait until the queues are old enough to survive their node."""
        if self.queue_type == "quorum":
            Event().wait(max(0.0, self._declared + AGE - time.monotonic()))

    def settle(self) -> None:
        """Wait until nothing is at the broker and nothing runs; the worker then still works."""
        self.worker  # noqa: B018
        self._probe(BACK_WITHIN)
        self.drained()
        for worker in self._others:
            if worker.running:
                assert worker.stop() == 0, worker.log()
        self._others.clear()
        # What is acknowledged before it starts is at no broker, and has no record yet.
        self._wait_counted("in_flight", lambda count: not count, self.worker)
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
        workers = filter(None, (self._worker, *self._others))
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

    def buffered(self, least: int = 1, worker: WorkerProcess | None = None) -> None:
        """Wait until so much waits in the victim, or in another; nothing of it must be starting."""
        self._wait_counted("buffered", lambda count: count >= least, worker or self.worker)

    def _wait_counted(self, what: str, suits: Callable[[int], bool], worker: WorkerProcess) -> None:
        """Wait until a worker has so many messages, as it says."""
        name = worker.hostname
        with Celery("asking", broker=self.space.url, set_as_current=False) as client:
            inspector = client.control.inspect(destination=[name], timeout=5)
            errors = (OperationalError, *client.connection_for_read().connection_errors)

            def counted() -> bool:
                try:
                    queues = (inspector._request("fair_status") or {}).get(name)
                except errors:  # kombu's pool had it from before
                    return False
                return queues is not None and suits(sum(q[what] for q in queues.values()))

            wait_for(counted, 30, lambda: f"{what} of {name}\n{self._logs()}")

    def running(self) -> list[Record]:
        """Tasks that have started and may still end."""
        ended = {record.id for record in self.records.finished.read()}
        open_ = [record for record in self.records.started.read() if record.id not in ended]
        return [record for record in open_ if psutil.pid_exists(record.pid)]

    def dead_letters(self) -> Counter[str]:
        """How many dead letters there have been, by task id."""
        self._dead.update(taken_dead_letters(self.space))
        assert self._dead.keys() <= self._published, "dead letters that nobody has published"
        return self._dead

    def waiting(self) -> list[str]:
        """What the broker has in the queues, or has given to a worker, by task id."""
        return waiting(self.space, QUEUES)

    def account(self, ids: Collection[str]) -> Account:
        """Where these messages went, when nothing runs any more."""
        return Account.of(ids, self.records, self.dead_letters(), self.waiting())

    def told(self, ids: Collection[str]) -> str:
        """All that tasks and workers have said of these messages, and when the ledger was away."""
        records = self.records.started.read() + self.records.finished.read()
        said = [repr(record) for record in sorted(records) if record.id in ids]
        logs = "\n".join(path.read_text() for path in sorted(self._folder.glob("worker*.log")))
        told = {AWAY, *ids}
        said += [line for line in logs.splitlines() if any(text in line for text in told)]
        return "\n".join(said)

    def end(self) -> None:
        self._stack.close()


def _merged(*conf: Mapping[str, Any]) -> dict[str, Any]:
    """Settings, of which the last says most; of the transport's options each by itself."""
    options = {name: value for one in conf for name, value in one.get(OPTIONS, {}).items()}
    return {name: value for one in conf for name, value in one.items()} | {OPTIONS: options}
