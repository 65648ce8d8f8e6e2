"""What is set with --keep holds for workers that start later; what is set without says that not."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from celery import Celery
from celery.bin.base import CLIContext
from click.testing import CliRunner, Result

from celery_fair.brokers.kept import Kept, KeptQueue, keeping
from celery_fair.cli import fair
from celery_fair.settings import Settings
from tests.brokers import Space
from tests.faults.proxy import Proxy
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker, WorkerProcess

FAIR: dict[str, Any] = {"fair_queues": {"bulk": {"quantum": 2, "target": "95% < 1h"}, "other": {}}}
Run = Callable[..., Result]


@pytest.fixture
def run_on() -> Callable[[WorkerProcess], Run]:
    def on(worker: WorkerProcess) -> Run:
        worker.client.conf.update(FAIR)

        def run(*words: str) -> Result:
            context = CLIContext(app=worker.client, no_color=True, workdir=None)
            return CliRunner().invoke(fair, [*words, "-t", "5"], obj=context)

        return run

    return on


def status(worker: WorkerProcess) -> dict[str, Any]:
    found: dict[str, Any] = worker.control("fair_status")
    return found


def test_workers_that_start_later(
    redis_space: Space, start_worker: StartWorker, run_on: Callable[[WorkerProcess], Run]
) -> None:
    first = start_worker(redis_space, pool="threads", queues=["bulk", "other"], conf=FAIR)
    assert first.inspect("ping")
    run = run_on(first)
    set_ = run("set", "bulk", "quantum=7", "rate=10/s", "target=90%<2h", "--keep")
    assert (set_.exit_code, "It is kept" in set_.stderr) == (0, True), set_.output
    assert run("set", "bulk", "quantum=8", "-d", first.hostname).exit_code == 0  # is not
    paused = run("pause", "other", "--keep", "-d", first.hostname)
    assert (paused.exit_code, "It is kept" in paused.stderr) == (0, True)
    second = start_worker(redis_space, pool="threads", queues=["bulk", "other"], conf=FAIR)
    assert second.inspect("ping")
    found = status(second)
    assert (found["bulk"]["quantum"], found["bulk"]["rate"], found["bulk"]["held"]) == (7, 10, None)
    assert found["bulk"]["aim"]["asked"] == "90% < 2h"
    assert found["other"]["held"] == "paused"
    assert status(first)["bulk"]["quantum"] == 8

    resumed = run("resume", "other", "-d", f"{first.hostname},{second.hostname}")
    assert "do not find it paused any more" in resumed.stderr
    assert "is not kept any more" in run("set", "bulk", "--forget").stdout
    assert json.loads(run("set", "bulk", "--forget", "--json").stdout) == {"forgotten": False}
    third = start_worker(redis_space, pool="threads", queues=["bulk", "other"], conf=FAIR)
    assert third.inspect("ping")
    found = status(third)
    assert (found["bulk"]["quantum"], found["bulk"]["rate"], found["other"]["held"]) == (
        2,
        None,
        None,
    )
    assert not [worker for worker in (first, second, third) if "left out" in worker.log()]


def test_rabbitmq_needs_a_store(
    rabbitmq_space: Space,
    redis_space: Space,
    start_worker: StartWorker,
    run_on: Callable[[WorkerProcess], Run],
) -> None:
    worker = start_worker(rabbitmq_space, pool="threads", queues=["bulk"], conf=FAIR)
    run = run_on(worker)
    without = run("set", "bulk", "quantum=7", "-d", worker.hostname)
    assert "It lasts until these workers end" in without.stderr
    refused = run("pause", "bulk", "--keep", "-d", worker.hostname)
    assert (refused.exit_code, "fair_key_store" in refused.stderr) == (1, True)
    assert status(worker)["bulk"]["held"] is None
    assert "was not kept" in run("set", "bulk", "--forget").stdout

    worker.client.conf.fair_key_store = redis_space.url
    assert run("pause", "bulk", "--keep", "-d", worker.hostname).exit_code == 0
    stored = FAIR | {"fair_key_store": redis_space.url}
    later = start_worker(rabbitmq_space, pool="threads", queues=["bulk"], conf=stored)
    wait_equal(lambda: status(later)["bulk"]["held"], "paused")


def keep_paused(queue: str, url: str) -> None:
    """As a command does of which no worker hears."""
    app = Celery(broker=url, set_as_current=False)
    app.conf.update(FAIR)
    with app.connection_for_read() as connection, keeping(Settings.of(app), connection) as kept:
        assert kept is not None
        kept.pause(queue, True)


def test_a_store_that_is_away(
    rabbitmq_space: Space, redis_space: Space, start_worker: StartWorker
) -> None:
    """The worker starts, says that it goes by its settings, and by what is kept from then on."""
    with Proxy(redis_space) as store:
        store.refuse()
        away = FAIR | {"fair_key_store": store.url}
        worker = start_worker(rabbitmq_space, pool="threads", queues=["bulk"], conf=away)
        assert status(worker)["bulk"]["quantum"] == 2
        assert "Cannot read what was set live and kept" in worker.log()
        assert f"127.0.0.1:{store.port}" in worker.log()
        keep_paused("bulk", redis_space.url)
        store.release()
        wait_equal(lambda: status(worker)["bulk"]["held"], "paused", 60)  # it asks less and less


def test_a_worker_without_a_connection(redis_space: Space, start_worker: StartWorker) -> None:
    """What is kept meanwhile it takes in when it has one again."""
    with Proxy(redis_space) as proxy:
        worker = start_worker(proxy.url, pool="threads", queues=["bulk", "other"], conf=FAIR)
        proxy.refuse()
        proxy.cut()
        wait_for(lambda: "Connection to broker lost" in worker.log(), 30, worker.log)
        keep_paused("bulk", redis_space.url)
        proxy.release()
        told = "Queue bulk goes by what is kept of it by now"
        wait_for(lambda: told in worker.log(), 60, worker.log)
        assert status(worker)["bulk"]["held"] == "paused"


def test_nothing_kept_is_nothing_to_warn_of(caplog: pytest.LogCaptureFixture) -> None:
    app = Celery(set_as_current=False, broker="memory://")
    kept = Kept(Settings.of(app), app.connection_for_read)
    assert kept.of("bulk") == KeptQueue()
    assert not caplog.records


def test_what_no_worker_consumes_is_not_kept(
    redis_space: Space, start_worker: StartWorker, run_on: Callable[[WorkerProcess], Run]
) -> None:
    worker = start_worker(redis_space, pool="threads", queues=["bulk"], conf=FAIR)
    refused = run_on(worker)("pause", "blk", "--keep", "-d", worker.hostname)
    assert (refused.exit_code, "not consumed" in refused.output) == (1, True)
    with (
        worker.client.connection_for_read() as connection,
        keeping(Settings.of(worker.client), connection) as kept,
    ):
        assert kept is not None
        assert kept.all() == {}


def test_what_means_nothing_to_a_queue_is_left_out(
    redis_space: Space, caplog: pytest.LogCaptureFixture
) -> None:
    """It was kept when the settings were others, or by another app."""
    app = Celery(set_as_current=False, broker=redis_space.url)
    app.conf.fair_keys = {"jobs": {}}
    settings = Settings.of(app)
    with app.connection_for_read() as connection, keeping(settings, connection) as kept:
        assert kept is not None
        kept.keep("jobs", {"prefetch": 5})
        kept.keep("bulk", {"prefetch": 5})
    known = Kept(settings, app.connection_for_read)
    assert known.of("jobs").options == {}
    assert "jobs is left out: set jobs: 'prefetch' belongs to a subscription" in caplog.text
    assert known.of("bulk").options == {"prefetch": 5}


@pytest.mark.parametrize("words", [("set", "bulk"), ("set", "bulk", "quantum=1", "--forget")])
def test_what_cannot_be_meant(words: tuple[str, ...]) -> None:
    outcome = CliRunner().invoke(fair, words)
    assert outcome.exit_code == 2
