"""What a worker says at its start, and how it refuses to."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from celery import Celery
from kombu import Exchange, Queue

from celery_fair.routing.declared import collisions
from celery_fair.settings import Settings
from celery_fair.worker.launch.pool import PlainWay
from celery_fair.worker.observe.banner import banner, line, warnings
from celery_fair.worker.process import way_of
from celery_fair.worker.releases import NEWEST, untried
from tests.brokers import Space
from tests.processes import ROOT
from tests.workers import StartWorker

FAIR = {
    "fair_queues": {"fast": {"quantum": 3}, "slow": {"quantum": 0.5}},
    "fair_keys": {"slow": {}},
}


def test_the_log_and_the_banner_say_that_it_is_fair(
    space: Space, start_worker: StartWorker
) -> None:
    conf = FAIR | {"fair_fast_path": True}
    worker = start_worker(space, queues=["fast", "slow"], conf=conf, loglevel="INFO", quiet=False)
    log = worker.log()
    assert log.count("Fair: policy dwrr; queues fast 3, slow 0.5 by key; fast path on;") == 1
    banner, _, after = log.partition("[tasks]")
    assert "[fair]\n  .> policy:       dwrr\n  .> queues:       fast 3, slow 0.5 by key\n" in banner
    assert "Fair: policy" in after
    assert worker.stop() == 0


def test_what_is_said() -> None:
    with Celery("shop", set_as_current=False) as app:
        app.conf.task_queues = [Queue(f"q{n:02}", routing_key=f"q{n:02}") for n in range(12)]
        app.conf.update(
            fair_policy="strict",
            fair_fast_path=False,
            fair_ledger="redis://:secret@ledger/0",
            fair_event_log="/var/log/fair",
        )
        said = line(app, Settings.of(app))
        assert said.startswith("Fair: policy strict; queues q00 1, q01 1, ")
        assert "q09 1, 2 more; fast path off (fair_fast_path = False)" in said
        assert said.endswith("ledger redis://…; dead letters dead-letters; event log /var/log/fair")
        assert "secret" not in said + banner(app, Settings.of(app))


def test_queues_that_get_each_others_messages() -> None:
    """As those that are made without a routing key do."""
    with Celery("shop", set_as_current=False) as app:
        app.conf.task_queues = [
            Queue("interactive"),
            Queue("bulk"),
            Queue("apart", routing_key="apart"),
            Queue("all", Exchange("all", type="fanout")),
        ]
        [(queues, _, mend)] = collisions(app.amqp.queues.values())
        assert queues == "queues bulk, interactive"
        assert mend.endswith("Queue('bulk', routing_key='bulk')")
        [said] = warnings(app)
        assert said.startswith("The queues bulk, interactive have one routing key, 'celery'")


def test_a_celery_that_is_newer_than_those_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that leans on its inside and need not, does not."""
    with Celery("shop", set_as_current=False) as app:
        settings = Settings.of(app)
        assert type(way_of(settings)) is not PlainWay
        assert list(warnings(app)) == []
        monkeypatch.setitem(NEWEST, "celery", "5.0")
        untried.cache_clear()
        assert type(way_of(settings)) is PlainWay
        newer = f"celery {version('celery')} is newer than what"
        assert f"fast path off ({newer} it was tried with);" in line(app, settings)
        [said] = warnings(app)
        assert said.startswith(f"{newer} celery-fair was tried with (5.0)")
    monkeypatch.undo()
    untried.cache_clear()


@pytest.mark.parametrize(
    ("conf", "said"),
    [
        ({"fair_queues": {"a": {"quantum": 0}}}, "quantum must be a finite number above zero"),
        ({"fair_bogus": 1}, "fair_bogus is not a setting of celery_fair"),
        ({"fair_keys": {"a": {"rate": "1/s"}}}, "Set fair_key_store = 'redis://…'"),
        ({"fair_partitions": {"a": {"partitions": 2}}}, "fair_partitions needs fair_group_store"),
    ],
)
def test_a_setting_that_is_refused_is_one_line(
    conf: dict[str, object], said: str, tmp_path: Path
) -> None:
    error = refused(tmp_path, f"{MADE}\napp.conf.update({conf!r})\ninstall(app)\n")
    assert error.startswith("Error: fair_")
    assert said in error


MADE = """
from celery import Celery
from celery_fair import install
app = Celery('shop', broker='amqp://')
"""


def refused(tmp_path: Path, source: str) -> str:
    """What is said of an app whose worker does not start: one line."""
    (tmp_path / "shop.py").write_text(source)
    command = [sys.executable, "-m", "celery", "-A", "shop", "worker", "-P", "solo"]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    [error] = [text for text in done.stderr.splitlines() if "Error" in text]
    return error
