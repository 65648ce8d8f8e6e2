"""SQS: shares, what must start once, warm stops, dead letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from celery_fair import NonRepeatableTask, install
from celery_fair.brokers.broker import letters_of
from tests.brokers.sqs import Sqs
from tests.conftest import running
from tests.integration.gate import Gate
from tests.test_doctor import findings, work
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker

APP = "tests.apps.once"
SHARES = {"a": {"quantum": 3}, "b": {"quantum": 1}}


@pytest.fixture(scope="module")
def server() -> Iterator[Sqs]:
    yield from running(Sqs())


@pytest.fixture
def sqs(server: Sqs, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sqs]:
    """A region that has nothing yet, of which kombu knows nothing."""
    monkeypatch.setattr("kombu.transport.SQS.Channel._queue_cache", {})
    yield server
    server.reset()


class Shop:
    """What publishes to it, and the settings of its workers."""

    def __init__(self, sqs: Sqs, **options: Any) -> None:
        self.sqs = sqs
        self.conf: dict[str, Any] = {
            "broker_transport_options": sqs.options(**options),
            "worker_enable_remote_control": False,  # by a queue for each worker
        }
        self.app = Celery("shop", broker=sqs.url, set_as_current=False)
        self.app.conf.update(self.conf)
        install(self.app)

    def publish(self, queue: str, count: int, task: str = "noop", *args: Any) -> list[str]:
        sent = [self.app.send_task(task, (n, *args), queue=queue) for n in range(count)]
        return [result.id for result in sent]

    def letters(self) -> list[Any]:
        with self.app.connection_for_read() as connection:
            queue = letters_of(self.app, connection)
            with closing(queue.browse()) as letters:
                return list(letters)


@pytest.mark.parametrize(
    "pool", ["prefork", "solo", pytest.param("threads", marks=pytest.mark.wide)]
)
def test_shares(sqs: Sqs, start_worker: StartWorker, pool: str) -> None:
    shop = Shop(sqs)
    ids = [task for queue in SHARES for task in shop.publish(queue, 60, "nap", 0.05)]
    conf = shop.conf | {"fair_queues": SHARES}
    worker = start_worker(sqs.url, pool=pool, concurrency=2, queues=[*SHARES], conf=conf)
    records = worker.records.started.wait_once(ids)
    both = next(place for place, record in enumerate(records) if record.queue == "b")
    first = Counter(record.queue for record in records[both : both + 40])
    assert abs(first["a"] - 30) <= 3, first
    wait_equal(lambda: [sqs.depth(queue) for queue in SHARES], [(0, 0)] * 2)


def test_a_backlog_is_asked_for(sqs: Sqs, start_worker: StartWorker) -> None:
    """The subscription, when it has had no room, rests for two minutes."""
    shop = Shop(sqs, polling_interval=120)
    ids = shop.publish("a", 60)
    worker = start_worker(sqs.url, pool="threads", concurrency=2, queues=["a"], conf=shop.conf)
    worker.records.started.wait_ids(ids)


@pytest.mark.parametrize("fetch", ["push", "pull"])
def test_an_empty_queue_holds_up_no_other(sqs: Sqs, start_worker: StartWorker, fetch: str) -> None:
    """SQS waits for a message of the one, twenty seconds at a time, while the other is served."""
    shop = Shop(sqs, wait_time_seconds=20)
    conf = shop.conf | {"fair_queues": {name: {"fetch": fetch} for name in "ab"}}
    worker = start_worker(sqs.url, pool="threads", queues=["a", "b"], conf=conf)
    for _ in range(3):
        worker.records.started.wait_ids(shop.publish("b", 12), timeout=15)
    assert worker.stop(15) == 0


@pytest.mark.wide
def test_held_for_longer_than_the_visibility_timeout(
    sqs: Sqs, start_worker: StartWorker, tmp_path: Path
) -> None:
    """What waits at one worker is given to the other meanwhile: the ledger lets one of them."""
    shop = Shop(sqs, visibility_timeout=2)
    shop.conf["fair_ledger"] = f"sqlite:///{tmp_path}/ledger.db"
    options = {"app": APP, "pool": "threads", "queues": ["a"], "conf": shop.conf}
    ids = [task for ack in ("before", "after") for task in shop.publish("a", 8, ack, "", 0.7)]
    worker, _ = (start_worker(sqs.url, **options) for _ in range(2))
    started = worker.records.started

    wait_for(lambda: sqs.depth("a") == (0, 0), 60, worker.log)
    times = started.times(ids)
    assert set(times.values()) == {1}
    dead = {letter.id for letter in shop.letters()}
    assert {*times, *dead} == {*ids}


def test_without_a_ledger(sqs: Sqs, start_worker: StartWorker) -> None:
    worker = start_worker(sqs.url, wait=False, app=APP, queues=["a"], conf=Shop(sqs).conf)
    assert worker.wait() != 0
    assert "need a ledger there" in worker.log()


@pytest.mark.wide
def test_warm_stop(sqs: Sqs, start_worker: StartWorker, tmp_path: Path) -> None:
    """What has not started is there for the next worker: at once, if it must not start twice.

    But what SQS was handing over at that moment, perhaps something that was just given back, is
    there when its visibility timeout is over: the subscription's last answer is not read any more.
    """
    shop, gate = Shop(sqs, visibility_timeout=20), Gate()
    shop.conf["fair_ledger"] = f"sqlite:///{tmp_path}/ledger.db"
    options = {"app": APP, "pool": "threads", "queues": ["a"], "conf": shop.conf}
    try:
        held = shop.publish("a", 1, "before", str(gate.path))
        ids = shop.publish("a", 9, "before") + shop.publish("a", 5, "plain")
        worker = start_worker(sqs.url, **options)
        worker.records.started.wait_ids(held)
        wait_for(lambda: sqs.depth("a")[1] >= 3, 15, worker.log)
        worker.sigterm()
        gate.open()
        assert worker.wait() == 0
        start_worker(sqs.url, **options).records.finished.wait_once([*held, *ids])
        assert shop.letters() == []
    finally:
        gate.open()


def test_dead_letters(sqs: Sqs, start_worker: StartWorker) -> None:
    shop = Shop(sqs)
    ids = shop.publish("a", 3, "nosuchtask")
    worker = start_worker(sqs.url, queues=["a"], conf=shop.conf)
    wait_for(lambda: worker.log().count("Dead-lettered") == 3, 30, worker.log)
    assert sorted(letter.id for letter in shop.letters()) == sorted(ids)
    wait_equal(lambda: sqs.depth("dead-letters"), (3, 0))  # put back behind each other

    with shop.app.connection_for_read() as connection:
        queue = letters_of(shop.app, connection)
        with closing(queue.browse(lambda letter: letter.id == ids[0])) as letters:
            for letter in letters:
                if letter.id == ids[0]:
                    queue.replay(letter)
    wait_for(lambda: worker.log().count("Dead-lettered") == 4, 30, worker.log)
    assert sorted(letter.id for letter in shop.letters()) == sorted(ids)


@pytest.mark.wide
def test_doctor(sqs: Sqs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("celery._state._on_app_finalizers", set())  # tasks of other tests
    shop = Shop(sqs)
    shop.publish("celery", 2)
    shop.app.task(base=NonRepeatableTask, name="charge", shared=False)(work)
    found = findings(shop.app)
    assert found["broker"]["text"].startswith("SQS at sqs://")
    assert "need a ledger there" in found["workers"]["text"]
    assert found["queue celery"]["text"] == "about 2 messages"
    assert found["visibility timeout"]["level"] == "ok"

    shop.app.conf.fair_ledger = f"sqlite:///{tmp_path}/ledger.db"
    assert "workers" not in findings(shop.app)
