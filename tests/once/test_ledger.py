"""A ledger beside the broker: work starts once, and what has not started is not given up."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis

from celery_fair.headers import CLAIM, FAIR_KEY
from celery_fair.ledger import fingerprint
from tests.brokers import MariaDB, PostgreSQL, RedisServer, Space
from tests.integration.depths import left, ready
from tests.integration.gate import Gate
from tests.once.conftest import DeadLetters
from tests.once.test_once import SOON
from tests.publishing import publish
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker, WorkerProcess

APP = "tests.apps.once"
QUEUES = ["a"]
POOL: dict[str, Any] = {"app": APP, "pool": "threads", "concurrency": 2, "queues": QUEUES}


@pytest.fixture
def ledger(
    request: pytest.FixtureRequest, space: Space, redis_server: RedisServer, tmp_path: Path
) -> str:
    """Its URL: Redis beside RabbitMQ, SQLite beside Redis, or a server that is asked for."""
    if (param := getattr(request, "param", "beside")) != "beside":
        database = request.getfixturevalue(param)
        assert isinstance(database, PostgreSQL | MariaDB)
        return database.database()
    if space.kind == "redis":
        return f"sqlite:///{tmp_path}/ledger.db"
    return redis_server.space().url


def conf(ledger: str) -> dict[str, Any]:
    """Of workers of which one is killed: what it had is soon back, even on Redis."""
    return {
        "fair_ledger": ledger,
        "fair_ledger_since": "2000-01-01T00:00:00Z",
        "broker_transport_options": {"visibility_timeout": 2},
    }


def has_been_there_for_an_hour(ledger: str) -> None:
    """As if it had been: a message that is older than the ledger proves nothing."""
    since = time.time() - 3600
    if ledger.startswith("sqlite"):
        with closing(sqlite3.connect(ledger.partition(":///")[2])) as database:
            database.execute("UPDATE celery_fair_claims SET at = ? WHERE key = ''", [since])
            database.commit()
    else:
        with redis.Redis.from_url(ledger) as client:
            client.hset("celery-fair:ledger", "at", since)


def now(ledger: str) -> dict[str, Any]:
    """What a publisher says in a message."""
    return {"x-fair-published": time.time(), "x-fair-ledger": fingerprint(ledger)}


def lose(
    worker: WorkerProcess, space: Space, gate: Gate, count: int, ledger: str
) -> tuple[list[str], ...]:
    """Kill a worker that runs two tasks; returns these, and `count` that it was given besides.

    On Redis a busy worker is given none, so they are put back as if it had been.
    """
    held = publish(space.url, {"a": 2}, "after", [str(gate.path)], headers=now(ledger)).all()
    worker.records.started.wait_ids(held)
    flagged = {"redelivered": True} if space.kind == "redis" else {}
    waiting = publish(space.url, {"a": count}, "after", headers=now(ledger) | flagged).all()
    if space.kind == "rabbitmq":
        wait_equal(lambda: ready(space, *QUEUES), 0)
    worker.kill()
    worker.process.end()
    return held, waiting


def test_what_has_not_started_runs(
    space: Space, start_worker: StartWorker, gate: Gate, dead_letters: DeadLetters, ledger: str
) -> None:
    first = start_worker(space, conf=conf(ledger), args=["--prefetch-multiplier", "10"], **POOL)
    has_been_there_for_an_hour(ledger)
    held, waiting = lose(first, space, gate, 10, ledger)

    second = start_worker(space, conf=conf(ledger), **POOL)

    second.records.finished.wait_once(waiting)
    wait_equal(lambda: sorted(dead_letters()), sorted(held), timeout=30)
    assert {letter["x-fair-reason"] for letter in dead_letters().values()} == {"redelivered"}
    assert second.records.started.repeated() == []
    if space.kind == "rabbitmq":
        redelivered = {r.id for r in second.records.started.read() if r.redelivered}
        assert redelivered == set(waiting)
    wait_equal(lambda: left(space, *QUEUES), 0)


@pytest.mark.wide
def test_a_ledger_that_was_emptied_proves_nothing(
    space: Space, start_worker: StartWorker, gate: Gate, dead_letters: DeadLetters, ledger: str
) -> None:
    first = start_worker(space, conf=conf(ledger), args=["--prefetch-multiplier", "10"], **POOL)
    has_been_there_for_an_hour(ledger)
    held, waiting = lose(first, space, gate, 10, ledger)
    if ledger.startswith("sqlite"):
        Path(ledger.partition(":///")[2]).unlink()
    else:
        with redis.Redis.from_url(ledger) as client:
            client.flushdb()

    second = start_worker(space, conf=conf(ledger), **POOL)

    wait_equal(lambda: sorted(dead_letters()), sorted([*held, *waiting]), timeout=30)
    fresh = publish(space.url, {"a": 5}, "after", headers=now(ledger)).all()
    second.records.finished.wait_once(fresh)
    assert second.records.started.repeated() == []
    assert not second.records.started.times(waiting)


@pytest.mark.parametrize(
    "ledger",
    ["beside", *(pytest.param(name, marks=pytest.mark.wide) for name in ("postgresql", "mariadb"))],
    indirect=True,
)
@pytest.mark.either_broker
def test_of_the_same_work_one_starts(
    space: Space, start_worker: StartWorker, dead_letters: DeadLetters, ledger: str
) -> None:
    """Ten orders, each of them published ten times, for four workers; who ordered is a tenant."""
    workers = [
        start_worker(space, wait=False, app=APP, queues=QUEUES, conf={"fair_ledger": ledger})
        for _ in range(4)
    ]
    for worker in workers:
        worker.wait_ready()
    orders = [f"order {n}" for n in range(10)]
    headers = now(ledger) | {FAIR_KEY: "acme"}
    of = {
        id_: order
        for order in orders * 10
        for id_ in publish(space.url, {"a": 1}, "order", [order], headers=headers).all()
    }

    records = workers[0].records
    wait_for(
        lambda: len(records.finished) + len(dead_letters()) >= len(of), 60, lambda: f"{records}"
    )

    assert Counter(of[record.id] for record in records.started.read()) == dict.fromkeys(orders, 1)
    letters = dead_letters()
    assert {letter["x-fair-reason"] for letter in letters.values()} == {"duplicate"}
    assert {letter[CLAIM] for letter in letters.values()} == {f"order:{o}" for o in orders}
    assert {letter[FAIR_KEY] for letter in letters.values()} == {"acme"}
    assert len(letters) == len(of) - len(orders)


def test_a_ledger_that_is_away(
    space: Space,
    start_worker: StartWorker,
    gate: Gate,
    own_redis: RedisServer,
    dead_letters: DeadLetters,
) -> None:
    """What comes by is judged strictly, now and later: it may have started without a claim."""
    ledger = own_redis.url()
    first = start_worker(space, conf=conf(ledger), **POOL)
    has_been_there_for_an_hour(ledger)
    own_redis.kill()
    unclaimed = publish(space.url, {"a": 2}, "after", [str(gate.path)], headers=now(ledger)).all()
    first.records.started.wait_ids(unclaimed)
    assert "The ledger cannot be reached" in first.log()
    own_redis.start()
    own_redis.wait_ready()
    first.kill()
    first.process.end()

    second = start_worker(space, conf=conf(ledger), **POOL)

    wait_equal(lambda: sorted(dead_letters()), sorted(unclaimed), SOON)
    later = publish(space.url, {"a": 5}, "after", headers=now(ledger)).all()
    second.records.finished.wait_once(later)
    assert second.records.started.repeated() == []


def test_a_key_that_names_nothing(
    space: Space, start_worker: StartWorker, dead_letters: DeadLetters, ledger: str
) -> None:
    worker = start_worker(space, app=APP, queues=QUEUES, conf={"fair_ledger": ledger})
    bad = publish(space.url, {"a": 1}, "order", [""], headers=now(ledger)).all()
    few = publish(space.url, {"a": 1}, "order", headers=now(ledger)).all()
    worker.records.finished.wait_once(publish(space.url, {"a": 1}, "order", ["x"]).all())

    wait_equal(lambda: sorted(dead_letters()), sorted([*bad, *few]))
    details = {id_: letter["x-fair-detail"] for id_, letter in dead_letters().items()}
    assert "the key of order is '', which names no work" in details[bad[0]]
    assert "missing 1 required positional argument" in details[few[0]]
    assert not worker.records.started.times([*bad, *few])


def test_a_replacement_has_the_same_id_and_is_other_work(
    space: Space, start_worker: StartWorker, dead_letters: DeadLetters, ledger: str
) -> None:
    """A task that replaces itself, and then has another one in its place."""
    worker = start_worker(space, app=APP, queues=QUEUES, conf={"fair_ledger": ledger})
    names = ["replaces", "after"]
    ids = publish(space.url, {"a": 2}, "replaces", names, headers=now(ledger)).all()

    wait_for(
        lambda: len(worker.records.finished) + len(dead_letters()) >= len(ids),
        30,
        lambda: f"{worker.records}",
    )

    assert dead_letters() == {}
    assert worker.records.started.times(ids) == dict.fromkeys(ids, 3)
    wait_equal(lambda: left(space, *QUEUES), 0)
