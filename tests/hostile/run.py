"""A worker that is given hostile messages, with good ones in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, NamedTuple
from uuid import uuid4

import redis
from kombu import Connection

from tests.brokers import Space
from tests.brokers.space import Depth
from tests.hostile.messages import ORDINARY, Hostile
from tests.hostile.outcomes import DEAD, broken, outcomes
from tests.integration.depths import left
from tests.publishing.amqp_broker import publish_header
from tests.waiting import wait_for
from tests.workers import StartWorker, WorkerProcess

BETWEEN = 10
"""So many hostile ones are before each good one."""
LOT = 200
PATIENCE = 60
"""Seconds after which something hangs."""
QUEUES = ("a", "b")
"""All hostile ones are in the first."""


class Way(NamedTuple):
    """How a worker works."""

    pool: str
    fast: bool

    def __str__(self) -> str:
        return f"{self.pool}, {'fast' if self.fast else 'plain'}"


WAYS = tuple(Way(pool, fast) for pool in ("prefork", "threads", "solo") for fast in (True, False))


@dataclass
class Result:
    """Of one worker.

    Attributes:
        outcomes: how many of the messages had which.
        broken: the laws that were.
        slowest: seconds after which the last good one of a lot started.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    slowest: float = 0.0
    seconds: float = 0.0


def play(
    way: Way, space: Space, messages: Sequence[Hostile], start: StartWorker, ledger: str = ""
) -> Result:
    """Give a worker all of the messages; stop it, and see what became of them."""
    result, began = Result(), monotonic()
    conf: dict[str, Any] = {"fair_fast_path": way.fast}
    if ledger:
        conf["fair_ledger"] = ledger
    worker = start(
        space,
        app="tests.apps.hostile",
        pool=way.pool,
        concurrency=2,
        queues=list(QUEUES),
        conf=conf,
    )
    goods: list[str] = []
    for first in range(0, len(messages), LOT):
        before = monotonic()
        goods += _publish(space, messages[first : first + LOT])
        if not _all_start(worker, goods, result):
            break
        result.slowest = max(result.slowest, monotonic() - before)
    _settle(worker, space, messages, result)
    found, wrong = outcomes(space, QUEUES[0], worker.records, worker.log())
    result.broken += wrong
    lost = [
        message for message in messages if _is_ordinary(message) and message.number not in found
    ]
    for message in lost if lost and _celery_loses(way, space, lost, start) else ():
        found[message.number] = Counter({"gone, as with Celery": 1})
    result.broken += broken(messages, found)
    result.broken += [
        f"{n} starts of a good one" for n in worker.records.started.times(goods).values() if n != 1
    ]
    for message in messages:
        result.outcomes[" and ".join(sorted(found.get(message.number, ["gone"])))] += 1
    if None in found:
        result.broken.append(f"nobody knows whose: {dict(found[None])}")
    result.seconds = monotonic() - began
    return result


def _is_ordinary(message: Hostile) -> bool:
    task = str(message.headers.get("task"))
    return message.raw is None and (task in ORDINARY or task.startswith("celery."))


def _celery_loses(way: Way, space: Space, messages: Sequence[Hostile], start: StartWorker) -> bool:
    """Whether Celery's own worker forgets them, too."""
    place = space.server.space()
    celery = start(place, fair=False, app="tests.apps.hostile", pool=way.pool, queues=["a", "b"])
    _publish(place, messages)
    try:
        wait_for(lambda: not celery.running or not left(place, *QUEUES), PATIENCE)
    except TimeoutError:
        return False
    dead = sum(place.depths().get(DEAD, Depth(0, 0)))
    return celery.running and not dead and celery.stop() == 0


def _all_start(worker: WorkerProcess, goods: Sequence[str], result: Result) -> bool:
    started = worker.records.started
    try:
        wait_for(lambda: not worker.running or len(started.times(goods)) == len(goods), PATIENCE)
    except TimeoutError:
        missing = len(goods) - len(started.times(goods))
        result.broken.append(f"{missing} good ones did not start in {PATIENCE} s")
        return False
    if not worker.running:
        result.broken.append(f"the worker ended: {worker.wait()}\n{worker.log()[-3000:]}")
    return worker.running


def _settle(
    worker: WorkerProcess, space: Space, messages: Sequence[Hostile], result: Result
) -> None:
    """Wait until only those are left that may wait; then stop the worker."""
    may_wait = sum(message.waits for message in messages)
    if worker.running:
        try:
            wait_for(lambda: left(space, *QUEUES) <= may_wait, PATIENCE)
        except TimeoutError:
            result.broken.append(f"{left(space, *QUEUES)} are left, {may_wait} of them may be")
        if "Connection to broker lost" in worker.log():
            result.broken.append("the worker lost its connection")
        code = worker.stop()
        if code:
            result.broken.append(f"the worker ended: {code}\n{worker.log()[-3000:]}")


def _publish(space: Space, lot: Iterable[Hostile]) -> list[str]:
    """Publish them, and good ones in between; return the ids of those."""
    goods = []
    publish = _to_redis if space.kind == "redis" else _to_rabbitmq
    with Connection(space.url, transport_options={"confirm_publish": True}) as connection:
        producer = connection.Producer()
        raw = publish(space, connection)
        next(raw)
        for number, message in enumerate(lot):
            if message.raw is None and message.frames is None:
                producer.publish(routing_key=QUEUES[0], **message.message())
            else:
                raw.send(message)
            if number % BETWEEN == 0:
                for queue in QUEUES:
                    goods.append(str(uuid4()))
                    headers = {"lang": "py", "task": "noop", "id": goods[-1]}
                    producer.publish([[-1], {}, {}], routing_key=queue, headers=headers)
        raw.close()
    return goods


def _to_redis(space: Space, connection: Any) -> Iterator[Any]:
    with redis.Redis.from_url(space.url) as client:
        while True:
            message = yield
            client.lpush(QUEUES[0], message.raw)


def _to_rabbitmq(space: Space, connection: Any) -> Iterator[Any]:
    with connection.channel() as channel:
        while True:
            message = yield
            publish_header(channel, QUEUES[0], message.frames, message.body)
