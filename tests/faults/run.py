"""One run of a fault: its messages, and what it needs for its damage."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from random import Random
from threading import Event

from tests.faults.proxy import Proxy
from tests.faults.scene import AWAY, QUEUES, Scene
from tests.integration.gate import Gate
from tests.waiting import wait_for

HELD = 12
"""Messages: enough for all slots and for all windows."""


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
        self._was_away = self.worker_process.log().count(AWAY)

    @property
    def lost_its_ledger(self) -> bool:
        """Whether the victim has, since then."""
        return self.worker_process.log().count(AWAY) > self._was_away

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

    def hold(self, first: str = "") -> None:
        """Publish more, none of which ends before the gate is open.

        So there is work in the worker and before it, however late the fault comes.

        Arguments:
            first: the task that starts; by default any.
        """
        each, gate = HELD // len(self._tasks), str(self.gate.path)
        for task in sorted(self.shuffled(), key=lambda task: task != first):
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

    def occupied(self, workers: int = 1) -> set[str]:
        """Wait until all slots of so many workers are held; returns by what."""
        return self._wait_held(workers * self.scene.concurrency)

    def _wait_held(self, slots: int) -> set[str]:
        records = self.scene.records.started
        wait_for(lambda: len(records.times(self._held)) >= slots, 30, "the slots to be held")
        return set(records.times(self._held))

    def filled(self) -> None:
        """Wait until all slots are held, and more waits in the worker."""
        self.occupied()
        self.scene.buffered()

    def block(self) -> None:
        """Have tasks that do not count hold all slots until the gate is open."""
        self._occupy(self.scene.concurrency)

    def _occupy(self, slots: int) -> None:
        self._held += self.scene.publish(slots, "plain", str(self.gate.path), QUEUES[0])

    def buffer(self) -> None:
        """Have messages wait in the worker, and none run that counts.

        Where little starts a worker takes two at a time, and on Redis none while no slot is free:
        so one slot is left for the first of two.
        """
        self._occupy(self.scene.concurrency - 1)
        self._wait_held(self.scene.concurrency - 1)
        self.proxy.hold("up")  # on Redis it takes what there is when it is heard
        self._occupy(1)
        self.one_each(self.shuffled(), 2)
        self.proxy.release("up")
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
