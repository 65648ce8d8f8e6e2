"""A broker that dies and returns: what was buffered never starts, and consumption resumes.

That none of the dead connection's messages starts is shown by messages that the broker does not
survive with: once it is back they are nowhere but in the worker's memory, so that each one which
starts came from there.

How soon it resumes is up to Celery, whose pauses between two attempts to connect grow. So Celery's
own worker goes through the same, and the fair one is back after as many attempts. It would not do
to let the broker return between the two workers' attempts: before them are proxies, which hide its
return until all have just failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests import shares
from tests.brokers import RabbitMQ, RedisServer, Space
from tests.conftest import running
from tests.faults.proxy import Proxy
from tests.integration.depths import ready
from tests.integration.gate import Gate
from tests.publishing import Ids, publish
from tests.waiting import wait_for
from tests.workers import StartWorker, WorkerProcess, starting_workers

QUANTA = {"a": 1, "b": 3}
FAIR = {"fair_queues": {name: {"quantum": quantum} for name, quantum in QUANTA.items()}}
# On a busy machine a gevent worker does not always notice that its Redis was killed: what waits on
# the connection then waits for ever. It is to be found out why; the other pools do.
POOLS = {
    "rabbitmq": ["threads", "prefork", "gevent"],
    "redis": ["threads", "prefork"],
}
FAILED = "Trying again in"
BACKLOG = {"a": 200, "b": 600}


class Victim:
    """A worker that loses its broker, with both slots occupied and more buffered."""

    def __init__(self, worker: WorkerProcess, space: Space, proxy: Proxy) -> None:
        self.worker, self.space, self.proxy, self.gate = worker, space, proxy, Gate()
        self.held: list[str] = []
        self.ghosts = Ids()

    def fill(self) -> None:
        self.held = self.gate.hold(self.worker, "a", 2, persistent=False)
        self.ghosts = publish(self.space.url, dict.fromkeys(QUANTA, 50), persistent=False)
        if self.space.kind == "rabbitmq":  # from Redis nothing is taken while no slot is free
            wait_for(lambda: ready(self.space, *QUANTA) < 100, 30, "messages to be buffered")

    def lose_connection(self) -> None:
        wait_for(lambda: "Connection to broker lost" in self.worker.log(), 60, self.worker.log)
        self.gate.open()
        self.worker.records.finished.wait_once(self.held)

    def resume(self) -> None:
        started = self.worker.records.started
        gate = Gate()
        gate.hold(self.worker, "a", 2)
        backlog = publish(self.space.url, BACKLOG).all()
        gate.open()
        starts = started.wait_once(backlog)

        assert not started.times(self.ghosts.all())
        assert started.repeated() == []
        part = shares.while_backlogged(starts, BACKLOG, warm_up=50, reserve=20)
        assert shares.max_share_error(shares.amounts(part), QUANTA) < 0.1


@pytest.fixture(params=[RabbitMQ, RedisServer], ids=["rabbitmq", "redis"])
def mortal(request: pytest.FixtureRequest) -> Iterator[RabbitMQ | RedisServer]:
    """A broker that the test may kill, and which keeps nothing that is not persistent."""
    yield from running(request.param())


@pytest.fixture
def victims(mortal: RabbitMQ | RedisServer, tmp_path: Path) -> Iterator[list[Victim]]:
    """Celery's own worker, and a fair one of each pool, started together: each takes its time."""
    kinds = [("threads", False), *((pool, True) for pool in POOLS[mortal.kind])]
    with ExitStack() as stack, ThreadPoolExecutor(len(kinds)) as together:

        def victim(kind: tuple[str, bool]) -> Victim:
            pool, fair = kind
            folder = tmp_path / f"{pool}-{fair}"
            folder.mkdir()
            start = stack.enter_context(starting_workers(folder))
            space = mortal.space()
            proxy = stack.enter_context(Proxy(space))
            options = {
                "pool": pool,
                "concurrency": 2,
                "queues": QUANTA,
                "conf": FAIR if fair else {},
            }
            new = Victim(start(proxy.url, fair=fair, **options), space, proxy)
            stack.callback(new.gate.open)
            return new

        yield list(together.map(victim, kinds))


def failed_until_back(victims: Sequence[Victim]) -> list[int]:
    """Let the broker be seen; return how many more attempts to connect have failed, by worker."""

    def failures() -> list[int]:
        return [victim.worker.log().count(FAILED) for victim in victims]

    def all_have_just_failed() -> bool:
        now = failures()
        return min(now) == max(now) > before

    ids = [publish(victim.space.url, {"a": 1}).all() for victim in victims]
    before = max(failures())
    wait_for(all_have_just_failed, 60, lambda: f"attempts to connect: {failures()}")
    for victim in victims:
        victim.proxy.release()
    before = max(failures())
    for victim, new in zip(victims, ids, strict=True):
        victim.worker.records.started.wait_once(new)
    return [count - before for count in failures()]


@pytest.mark.either_broker("redis")
def test_broker_is_killed_and_returns(
    mortal: RabbitMQ | RedisServer, victims: list[Victim]
) -> None:
    _, *fair = victims
    for victim in fair:
        victim.fill()

    for victim in victims:
        victim.proxy.refuse()
    mortal.kill()

    for victim in fair:
        victim.lose_connection()
    mortal.restart()
    of_celerys, *others = failed_until_back(victims)
    assert max(others) <= of_celerys
    with ThreadPoolExecutor(len(fair)) as together:
        list(together.map(Victim.resume, fair))


@pytest.mark.wide
@pytest.mark.parametrize("pool", ["gevent", "eventlet"])
def test_only_the_lost_connection_is_made_again(
    rabbitmq_space: Space, start_worker: StartWorker, pool: str
) -> None:
    """Not those before it, of which Celery's timers remain: that takes two seconds if it fails."""
    with Proxy(rabbitmq_space) as proxy:
        conf = FAIR | {"broker_heartbeat": 2}
        # That of commands, which come by a connection of their own, is the last.
        commands = proxy.on("consume", nth=len(QUANTA) + 1, when="after", action="note")
        worker = start_worker(proxy.url, pool=pool, queues=QUANTA, conf=conf)
        commands.wait()
        again = [proxy.on("connect", nth=number, action="note") for number in (1, 2, 3)]
        proxy.cut()
        worker.records.started.wait_once(publish(rabbitmq_space.url, {"a": 1}).all())
        for connection in again[:2]:
            connection.wait()
        proxy.on("heartbeat", nth=10, action="note").wait()
        assert not again[2].fired.is_set()
