"""On RabbitMQ: the queue itself and its lanes; whose these are, workers know."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

from celery_fair.brokers.amqp_mover import AmqpMover
from celery_fair.brokers.broker import shown
from celery_fair.brokers.keyed.lists import Backlog, KeyedLists
from celery_fair.brokers.keyed.store import KeyStore
from celery_fair.brokers.lanes import Lanes, NotEmptyError, lane
from celery_fair.brokers.mover import NotTakenError
from celery_fair.operate.errors import NoAnswerError, OperateError
from celery_fair.operate.keys.keys import Keys, Listing, Moved, Stop, Tick, rows_of, store_asked
from celery_fair.operate.keys.of_workers import backlogs, unknown
from celery_fair.operate.workers import Crowd, Workers
from celery_fair.settings import Settings

_PATIENCE = 1.0
"""Seconds for workers to answer; no longer than until all have that are known, if some are."""

_STOPPED = 2.0
"""Seconds for workers to say that they run."""


class RabbitMQKeys(Keys):
    """Has the lanes, and asks the workers."""

    place = "lanes"

    def __init__(self, app: Any, settings: Settings, connection: Any, queue: str) -> None:
        super().__init__(app, settings, connection, queue)
        queues = app.amqp.queues
        self._declared = queues.get(queue) or queues.new_missing(queue)
        connect, is_shared = partial(connection.clone, heartbeat=0), queue in Settings.of(app).keys
        self._lanes = Lanes(connect, self._declared, settings.keys[queue].lanes, is_shared)
        self._workers = Workers(app, (), _PATIENCE)
        self._crowd = Crowd(self._workers)

    def close(self) -> None:
        self._lanes.close()
        self._workers.close()

    def listing(self, top: int) -> Listing:
        filled, front = self.waiting(), self._lanes.front()
        seen, trouble = list[Mapping[str, Any]](), ""
        try:
            seen = self._crowd.keys(self._queue)
        except NoAnswerError as exc:  # this user may not ask them, say
            trouble = f"the workers could not be asked whose they are: {exc}"
        with store_asked():
            found = backlogs(self._settings, self._queue, filled, seen)
        return Listing(
            keys=sum(bool(each.waiting) for each in found),
            unsorted=front + unknown(filled, seen),
            top=rows_of(found, top),
            lanes=self._lanes.count,
            front=front,
            in_lanes=sum(filled.values()),
            trouble=trouble,
        )

    def backlog(self, tenant: str) -> tuple[Backlog, int]:
        filled, front = self.waiting(), self._lanes.front()
        with store_asked():
            seen = self._crowd.keys(self._queue, tenant)
            [found] = backlogs(self._settings, self._queue, filled, seen, (tenant,))
        return found, front + unknown(filled, seen)

    @contextmanager
    def _rules(self) -> Iterator[KeyedLists]:
        if self._settings.key_store is None:
            raise OperateError(
                f"on this broker, {shown(self._connection)}, each worker keeps the keys' tags"
                " itself, and there is nothing to be asked or told without a store: set"
                " fair_key_store = 'redis://…', or what keys have in fair_keys, and start the"
                " workers again. `fair keys list` shows what waits"
            )
        with store_asked(), closing(KeyStore(self._settings.key_store)) as store:
            yield store.lists(self._settings.keys[self._queue])

    def waiting(self) -> Mapping[int, int]:
        """Those in lanes that have some, by their numbers."""
        depths = self._lanes.depths(range(self._lanes.recount()))
        return {number: depth for number, depth in depths.items() if depth}

    def merge(self, waiting: Mapping[int, int], stop: Stop, tick: Tick) -> Moved:
        merged, channel = 0, self._lanes.channel
        with closing(AmqpMover(self._settings.dead_letters, self._connection)) as mover:
            try:
                for number, depth in sorted(waiting.items()):
                    name = lane(self._declared, number).name
                    for _ in range(depth):  # who sorts meanwhile would keep it busy for ever
                        if stop() or (raw := channel.basic_get(name)) is None:
                            break
                        mover.move(channel.message_to_python(raw), self._queue)
                        merged += 1
                        tick(1)
            except NotTakenError as exc:
                raise OperateError(
                    f"{merged} messages are back in {self._queue}, then the broker took no more:"
                    f" {exc}. Say it again when it does"
                ) from exc
        left = sum(waiting.values()) - merged if stop() else sum(self.waiting().values())
        return Moved(merged, max(0, left), stop())

    def everything(self) -> int:
        return sum(self.waiting().values()) + self._lanes.front()

    def purge_everything(self) -> Moved:
        lanes = [lane(self._declared, number).name for number in self.waiting()]
        purge = self._lanes.channel.queue_purge
        count = sum(int(purge(name)) for name in (self._queue, *lanes))
        return Moved(count, self.everything(), False)

    def shrink(self, stop: Stop) -> Moved:
        self._refuse_workers()
        count = self._lanes.recount()
        try:
            while self._lanes.count and not stop() and self._lanes.remove_last():
                pass
        except NotEmptyError as exc:
            raise OperateError(
                f"{exc}, and are lost: a publisher or worker was running. Stop all of them"
            ) from exc
        return Moved(count - self._lanes.count, self._lanes.count, stop())

    def _refuse_workers(self) -> None:
        with closing(Workers(self._app, (), _STOPPED)) as workers:
            try:
                answers = workers.ask("active_queues")
            except NoAnswerError as exc:
                if exc.silent:
                    return
                raise
        consuming = [
            name
            for name, queues in answers.good.items()
            if self._queue in {each["name"] for each in queues}
        ]
        if consuming:
            raise OperateError(
                f"{', '.join(consuming)} runs, and consumes {self._queue}; nothing was removed."
                " Stop all its workers and publishers first: what came into a lane just then would"
                " be lost"
            )
