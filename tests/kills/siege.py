"""A queue that is shared by key, those who publish to it and work on it, and who is killed."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Event
from time import monotonic, monotonic_ns
from typing import Any, NamedTuple

import psutil
from kombu import Connection, Queue

from celery_fair.brokers.lanes import Lanes, register
from celery_fair.dead_letters.death import dead_letter_queue
from celery_fair.headers import FAIR_KEY
from tests.brokers import RedisServer, Space
from tests.brokers.control import ControlError
from tests.faults.accounting import Account, Allowed, LawBrokenError
from tests.faults.fault import Loss, by_round_trip
from tests.faults.scene import AGE, CONF, OPTIONS
from tests.faults.whereabouts import taken_dead_letters, waiting
from tests.integration.depths import left
from tests.kills.caps import most_at_once
from tests.kills.publisher import TASKS, Named, Orders, PublisherProcess
from tests.publishing import publish
from tests.records import RecordFile, Records
from tests.waiting import wait_for
from tests.workers import StartWorker, WorkerProcess

QUEUE = "jobs"
LEASE = 3.0
"""Seconds of a place's lease."""
CAPS = {"capped": 1, "trio": 3}
KEYS = [
    *CAPS,
    *("heavy", "light", "parted/1", "parted/2", "parted/3", "", "a b"),
    *(f"tenant{number}" for number in range(12)),
]
OPTIONS_OF_KEYS: dict[str, Any] = {
    # They weigh so much that nothing but their caps keeps them back.
    "keys": {tenant: {"max_in_flight": cap, "weight": 50} for tenant, cap in CAPS.items()}
    | {"heavy": {"weight": 5}, "light": {"weight": 0.2}},
    "lease": LEASE,
}
LANES = 24
"""On quorum queues, all of them there from the start: younger ones can vanish with their node."""
FEW_LANES = 8
"""On classic ones: keys share them, and what is to wait is moved on to others."""
SLOTS = {"prefork": 2, "threads": 4, "solo": 1}
WORKERS, PUBLISHERS = 3, 3
PAUSE = 0.9
"""Seconds between two kills, at the most."""
BACKLOG = 1000
DEEP, FLOOD = 100, 400
"""Messages in the front from which on it is sorted; and of a publisher that makes it so."""
SETTLES_WITHIN = 180
LAST = 15
"""Messages of each key that wait when the last two workers start."""
SORTS = 100
"""Messages of a front that are moved out of the way in a second, at the least."""
TURN = 1.0
"""Seconds until it is the turn of a key that workers know of, when all have short tasks."""
COMES_BACK = 8.0
"""Seconds: what a killed worker held on Redis is given back by another one, which looks every
second, for its visibility timeout of two, and has to wait three for one that was killed doing so.
With a second on either side."""


class Case(NamedTuple):
    broker: str
    queue_type: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, self))

    @property
    def queue_arguments(self) -> dict[str, Any]:
        return {"x-queue-type": self.queue_type} if self.queue_type else {}

    @property
    def kinds(self) -> dict[str, int]:
        """Who is killed, and how often, relative to the others."""
        usual = {"publisher": 36, "worker": 42, "sorter": 6, "child": 8}
        if self.broker == "redis":
            return usual | {"broker": 8}
        return usual | {"store": 7, "broker": 1}


CASES = (Case("redis"), Case("rabbitmq", "classic"), Case("rabbitmq", "quorum"))


@dataclass
class Found:
    """What a siege has shown."""

    kills: Counter[str] = field(default_factory=Counter)
    accounts: dict[str, Account] = field(default_factory=dict)
    again: Counter[str] = field(default_factory=Counter)
    """Starts beyond the first, by task."""
    lost_at_most: int = 0
    most: Counter[str] = field(default_factory=Counter)
    """Tasks that ran at once, of capped keys."""
    key_waited: float = 0.0
    lane_waited: float = 0.0
    lanes: int = 0
    bound: float = 0.0
    lane_bound: float = 0.0
    violations: list[str] = field(default_factory=list)


class Siege:
    """See the module.

    Arguments:
        store: the Redis beside RabbitMQ, or the broker itself.
        seed: of who is killed, and when.
        backlog: messages beyond which publishers wait.
    """

    def __init__(
        self,
        case: Case,
        space: Space,
        store: RedisServer,
        start: StartWorker,
        folder: Path,
        seed: int,
        backlog: int = BACKLOG,
    ) -> None:
        self.found = Found()
        self._case, self._space, self._store = case, space, store
        self._start, self._folder = start, folder
        self._backlog = backlog
        self._draw, self._turn = random.Random(seed), Event()
        self._pause = folder / "pause"
        self.records = Records(folder / "tasks")
        self._sent = RecordFile(folder / "tasks.sent")
        self._confirmed = RecordFile(folder / "tasks.confirmed")
        self._workers: list[WorkerProcess] = []
        self._publishers: list[PublisherProcess] = []
        self._pools: dict[str, str] = {}
        self._deaths: dict[int, int] = {}
        self._numbers = 0
        self._loss = Allowed()
        self._declare()

    # Who is there ------------------------------------------------------------

    @cached_property
    def _conf(self) -> dict[str, Any]:
        keyed = dict(OPTIONS_OF_KEYS)
        if self._case.broker == "rabbitmq":
            keyed["lanes"] = LANES if self._case.queue_type == "quorum" else FEW_LANES
        conf: dict[str, Any] = {name: v for name, v in CONF.items() if name != "fair_queues"}
        if self._case.broker == "rabbitmq":
            conf[OPTIONS] = {}
            conf["fair_key_store"] = self._store.url()
        return conf | {"fair_keys": {QUEUE: keyed}}

    def _declare(self) -> None:
        """The queue, the dead letters, and of quorum queues the lanes; old enough to survive."""
        with Connection(self._space.url) as connection, connection.channel() as channel:
            queue = Queue(QUEUE, routing_key=QUEUE, queue_arguments=self._case.queue_arguments)
            queue(channel).declare()
            dead_letter_queue("dead-letters")(channel).declare()
        if self._case.queue_type == "quorum":
            lanes = Lanes(lambda: Connection(self._space.url), queue, LANES)
            while lanes.add() is not None:
                pass
            lanes.close()
            self._turn.wait(AGE)

    def _worker(self, pool: str = "") -> WorkerProcess:
        pool = pool or self._draw.choice(list(SLOTS))
        worker = self._start(
            self._space,
            wait=False,
            app="tests.apps.once",
            pool=pool,
            concurrency=SLOTS[pool],
            queues=[QUEUE],
            queue_arguments=self._case.queue_arguments,
            conf=self._conf,
            records=self.records,
        )
        self._pools[worker.hostname] = pool
        self._workers.append(worker)
        return worker

    def _publisher(self, **orders: Any) -> PublisherProcess:
        self._numbers += 1
        given: dict[str, Any] = {"installed": self._draw.random() < 0.6, "keys": KEYS} | orders
        new = PublisherProcess(
            Orders(
                url=self._space.url,
                queue=QUEUE,
                records=str(self.records.prefix),
                pause=str(self._pause),
                seed=self._draw.randrange(1 << 30),
                conf=self._conf,
                queue_arguments=self._case.queue_arguments,
                **given,
            ),
            self._folder / f"publisher{self._numbers}.log",
        )
        self._publishers.append(new)
        return new

    # Kills -------------------------------------------------------------------

    def kills(self, count: int) -> Iterator[str]:
        """Kill so many, at random; yield who it was."""
        while len(self._workers) < WORKERS:
            self._worker().wait_ready()
        while len(self._publishers) < PUBLISHERS:
            self._publisher()
        kinds = self._case.kinds
        for _ in range(count):
            self._wait(self._draw.uniform(0, PAUSE))
            kind = self._draw.choices(list(kinds), list(kinds.values()))[0]
            kind = getattr(self, f"_kill_{kind}")()
            self.found.kills[kind] += 1
            yield kind

    def _wait(self, seconds: float) -> None:
        """Let them work; nobody may end unless killed, and no more wait than are to."""
        until = monotonic() + seconds
        while True:
            for gone in [worker for worker in self._workers if not worker.running]:
                self.found.violations.append(
                    f"{gone.hostname} has ended by itself:\n{gone.log()[-3000:]}"
                )
                self._workers.remove(gone)
                gone.end()
                self._worker()
            waiting_ = len(self._confirmed) - len(self.records.finished)
            if waiting_ > self._backlog:
                self._pause.touch()
            else:
                self._pause.unlink(missing_ok=True)
            if monotonic() >= until:
                return
            self._turn.wait(min(0.2, max(0.0, until - monotonic())))

    def _kill_publisher(self) -> str:
        victim = self._publishers.pop(self._draw.randrange(len(self._publishers)))
        victim.end()
        self._publisher()
        return "publisher"

    def _kill_worker(self) -> str:
        self._end_worker(self._workers.pop(self._draw.randrange(len(self._workers))))
        self._worker()
        return "worker"

    def _end_worker(self, victim: WorkerProcess) -> None:
        """SIGKILL for all of it; or first for the main process, and its children go on a little."""
        pids = [victim.pid]
        with suppress(psutil.Error):
            pids += [child.pid for child in victim.children()]
        victim.kill()
        if self._draw.random() < 0.5:
            self._turn.wait(self._draw.uniform(0, 0.2))
        victim.end()
        self._deaths |= dict.fromkeys(pids, monotonic_ns())
        self._costs(Loss(False, 1, 0), SLOTS[self._pools[victim.hostname]])

    def _kill_child(self) -> str:
        """One of a prefork pool that has been at work; if there is none, a worker.

        A worker of Celery's ends if that happens before it is ready.
        """
        prefork = [w for w in self._workers if self._pools[w.hostname] == "prefork"]
        worked = {record.pid for record in self.records.started.read()[-BACKLOG:]}
        children = [c for worker in prefork for c in self._children(worker) if c.pid in worked]
        if not children:
            return self._kill_worker()
        victim = self._draw.choice(children)
        with suppress(psutil.Error):
            victim.kill()
            victim.wait(10)
        self._deaths[victim.pid] = monotonic_ns()
        self._costs(Loss(False, 1, 0), SLOTS["prefork"])
        return "child"

    def _children(self, worker: WorkerProcess) -> list[psutil.Process]:
        try:
            return worker.children()
        except psutil.Error:
            return []

    def _kill_sorter(self) -> str:
        """A worker, while messages are moved out of a front that is deep."""
        victim = self._publishers.pop(0)
        victim.end()
        key = self._draw.choice(KEYS)
        keys = [key, *(other for other in KEYS if other != key)]
        self._pause.unlink(missing_ok=True)
        self._publisher(installed=False, flood=FLOOD, keys=keys)
        with suppress(TimeoutError):
            wait_for(lambda: self._front() > DEEP, 5, interval=0.02)
            self._turn.wait(self._draw.uniform(0, 0.5))
            self._kill_worker()
            return "sorter"
        return self._kill_worker()

    def _front(self) -> int:
        with suppress(ControlError, KeyError):
            return self._space.depths()[QUEUE].ready
        return 0

    def _kill_store(self) -> str:
        self._store.kill()
        self._turn.wait(self._draw.uniform(0, 0.3))
        self._store.restart()
        return "store"

    def _kill_broker(self) -> str:
        self._space.server.kill()
        self._space.server.restart()
        self._costs(Loss(False, 0, len(self._workers)), 1)
        return "broker"

    def _costs(self, loss: Loss, slots: int) -> None:
        """As in a row of the matrix of faults; of tasks that are acknowledged before they start."""
        if "before" not in by_round_trip(self._case.broker):
            loss = loss._replace(answers=0)
        allowed = loss.allowed(slots)
        pairs = zip(self._loss, allowed, strict=True)
        both = Allowed(*(a + b for a, b in pairs))
        self._loss = Allowed(both.started, both.unstarted, both.lost)

    # The end -----------------------------------------------------------------

    def settle(self) -> None:
        """All is quiet: two workers do what is left, and every lane is tried."""
        for publisher in self._publishers:
            publisher.end()
        self._publishers.clear()
        for worker in self._workers:
            self._end_worker(worker)
        self._workers.clear()
        last = [self._publisher(installed=installed, each=LAST) for installed in (True, False)]
        for publisher in last:
            publisher.wait(60)
            publisher.end()
        for pool in ("threads", "prefork"):
            self._worker(pool)
        for worker in self._workers:
            worker.wait_ready(60)
        front, began = self._front(), monotonic_ns()
        self._drained()
        self._note_keys(began, front)
        if self._case.broker == "rabbitmq":
            self._try_lanes()
        for worker in self._workers:
            if (code := worker.stop()) != 0:
                self._wrong(f"{worker.hostname} ended with {code}:\n{worker.log()[-3000:]}")

    def _drained(self) -> None:
        try:
            wait_for(self._empty, SETTLES_WITHIN, interval=0.1)
        except TimeoutError:
            state = {name: depth for name, depth in self._space.depths().items() if any(depth)}
            logs = "\n".join(worker.log()[-3000:] for worker in self._workers)
            self._wrong(f"after {SETTLES_WITHIN} s there is still {state}\n{logs}")

    def _empty(self) -> bool:
        with suppress(ControlError):
            return left(self._space, QUEUE) == 0
        return False

    def _note_keys(self, began: int, front: int) -> None:
        """How long each key waited that had messages when the last workers were there."""
        before = {r.id for r in self.records.started.read() if r.monotonic_ns < began}
        keys = {record.queue for record in self._confirmed.read() if record.id not in before}
        first: dict[str, int] = {}
        for record in sorted(self.records.started.read()):
            if record.monotonic_ns >= began:
                first.setdefault(Named.of(record.id).key, record.monotonic_ns)
        waits = {key: (first.get(key, began) - began) / 1e9 for key in keys}
        self.found.key_waited = max(waits.values(), default=0.0)
        self.found.lanes = sum(
            name.startswith(f"{register(QUEUE)}.") for name in self._space.depths()
        )
        held = COMES_BACK if self._case.broker == "redis" else 0.0
        self.found.bound = self._found_within + front / SORTS + LEASE + held + TURN
        if self.found.key_waited > self.found.bound:
            self._wrong(f"a key waited for more than {self.found.bound:.1f} s: {waits}")

    @property
    def _found_within(self) -> float:
        """Seconds until a worker knows of a message in any lane, at the most.

        As `celery_fair.worker.queues.keyed.lane_watch` has it: so many looks a second, and what
        passes between two, of which one is spent on a deep front.
        """
        return self.found.lanes / 64 + 1.25

    def _try_lanes(self) -> None:
        """A message into each lane, of which nobody is told, starts as soon as is promised."""
        names = [f"{register(QUEUE)}.{number}" for number in range(self.found.lanes)]
        began = monotonic_ns()
        tried = {}
        for name in names:
            options: dict[str, Any] = {"queue_arguments": self._case.queue_arguments}
            ids = publish(self._space.url, {name: 1}, "plain", headers={FAIR_KEY: name}, **options)
            tried[ids[name][0]] = monotonic_ns()
        try:
            self.records.started.wait_ids(tried, 60)
        except TimeoutError as error:
            self._wrong(f"lanes that nobody serves: {error}")
        waits = [
            (record.monotonic_ns - tried[record.id]) / 1e9
            for record in self.records.started.read()
            if record.monotonic_ns >= began and record.id in tried
        ]
        self.found.lane_waited = max(waits, default=0.0)
        self.found.lane_bound = self._found_within + TURN
        if self.found.lane_waited > self.found.lane_bound:
            self._wrong(f"a lane waited {self.found.lane_waited:.1f} s: {sorted(waits)[-5:]}")

    def _wrong(self, what: str) -> None:
        self.found.violations.append(what)

    # The account -------------------------------------------------------------

    def check(self) -> Found:
        """Say where everything went, and what is wrong with that."""
        sent = {record.id for record in self._sent.read()}
        ids: dict[str, set[str]] = defaultdict(set)
        for record in self._confirmed.read():
            ids[Named.of(record.id).task].add(record.id)
        dead = Counter(taken_dead_letters(self._space))
        kept = waiting(self._space, [QUEUE])
        if strange := dead.keys() - sent:
            self._wrong(f"dead letters that nobody has published: {sorted(strange)}")
        for task in TASKS:
            account = Account.of(ids[task], self.records, dead, kept)
            self.found.accounts[task] = account
            self._law(task, account)
        self._in_doubt(sent, dead)
        self.found.lost_at_most = int(self._loss.lost)
        started = Counter(r.id for r in self.records.started.read() if r.id in sent)
        for task_id, times in started.items():
            self.found.again[Named.of(task_id).task] += times - 1
        ours = [record for record in self.records.started.read() if record.id in sent]
        most = most_at_once(ours, self.records.finished.read(), self._deaths)
        self.found.most = Counter({tenant: most[tenant] for tenant in CAPS})
        for tenant, cap in CAPS.items():
            if most[tenant] > cap:
                self._wrong(f"{most[tenant]} tasks of {tenant!r} ran at once, its cap is {cap}")
        return self.found

    def _allowed(self, task: str) -> Allowed:
        """A copy may be there beside its message where moving takes two steps."""
        twice = float("inf") if self._case.broker == "rabbitmq" else 0
        if task == "late":
            return Allowed(dead=0, twice=float("inf"))
        loss = self._loss if task == "before" else Allowed()
        return loss._replace(dead_twice=twice)

    def _law(self, task: str, account: Account) -> None:
        try:
            account.check(self._allowed(task))
        except LawBrokenError as error:
            told = self.told(
                account.lost | account.started_twice if task != "late" else account.lost
            )
            self._wrong(f"{task}: {error}\n{told}")

    def _in_doubt(self, sent: set[str], dead: Counter[str]) -> None:
        """What was sent and not confirmed may be there or not; it starts once as any other."""
        unsure = sent - {record.id for record in self._confirmed.read()}
        times = self.records.started.times(unsure)
        twice = [i for i, n in times.items() if n > 1 and Named.of(i).task != "late"]
        if twice:
            self._wrong(f"unconfirmed, and started twice: {twice}")
        if late := [i for i in unsure & dead.keys() if Named.of(i).task == "late"]:
            self._wrong(f"unconfirmed ordinary tasks among the dead letters: {late}")

    def told(self, ids: Collection[str]) -> str:
        """All that tasks and workers have said of these messages."""
        files = (self._sent, self._confirmed, self.records.started, self.records.finished)
        said = [f"{f.path.suffix} {r}" for f in files for r in f.read() if r.id in ids]
        logs = "\n".join(path.read_text() for path in sorted(self._folder.glob("*.log")))
        lines = [line for line in logs.splitlines() if any(i in line for i in ids)]
        return "\n".join((said + lines)[:200])

    def end(self) -> None:
        """Leave none of the publishers."""
        for publisher in self._publishers:
            publisher.end()
