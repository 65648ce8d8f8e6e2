"""Settings: where they may be written, and that bad ones stop the worker with a reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery.exceptions import ImproperlyConfigured

from celery_fair.settings import Settings
from tests.brokers import Space
from tests.integration.test_queues import consumed
from tests.publishing import publish
from tests.workers import StartWorker

pytestmark = pytest.mark.either_broker

NAN, INF = float("nan"), float("inf")
FAIR = {"fast": {"quantum": 8}, "slow": {"prefetch": 3}}
TASK = """
import os
from celery import Celery
from tests.apps.recorder import Recorder
from tests.apps.settings import AppSettings

settings = AppSettings.from_environment()
started = Recorder(f"{settings.records}.started")
"""
READY = """
from celery.signals import worker_ready
from celery_fair import FairConsumerStep, install

@app.task(bind=True, name="noop")
def noop(self, seq):
    started(self.request.delivery_info["routing_key"], self.request.id, seq)

@worker_ready.connect
def tell_the_test(**_):
    os.write(settings.ready_fd, b"ready\\n")
"""
STEP = 'app.steps["consumer"].add(FairConsumerStep)\n'
UPDATE = f"""
app = Celery("update", broker=settings.broker_url)
app.conf.update(fair_queues={FAIR}, fair_default_quantum=3)
"""
MODULE = """
app = Celery("module", broker=settings.broker_url)
app.config_from_object("plain_config")
"""
DJANGO = """
os.environ["DJANGO_SETTINGS_MODULE"] = "site_settings"
app = Celery("site", broker=settings.broker_url)
app.config_from_object("django.conf:settings", namespace="CELERY")
"""
APPS = {
    "update": UPDATE + READY + STEP,
    "module": MODULE + READY + STEP,
    "django": DJANGO + READY + STEP,
    "install": UPDATE + READY + "install(app)\ninstall(app)\n",
    "django and install": DJANGO + READY + "install(app)\n",
}


@pytest.mark.parametrize("way", APPS)
def test_settings_are_read(
    redis_space: Space, start_worker: StartWorker, tmp_path: Path, way: str
) -> None:
    (tmp_path / "plain_config.py").write_text(f"fair_queues = {FAIR}\nfair_default_quantum = 3\n")
    (tmp_path / "site_settings.py").write_text(
        f"CELERY_FAIR_QUEUES = {FAIR}\nCELERY_FAIR_DEFAULT_QUANTUM = 3\n"
    )
    worker = start_worker(redis_space, app=TASK + APPS[way])

    assert consumed(worker) == {"celery", "fast", "slow"}
    queues = worker.inspect("stats")["fair"]
    assert {name: queue["quantum"] for name, queue in queues.items()} == {
        "celery": 3,
        "fast": 8,
        "slow": 3,
    }
    assert queues["slow"]["window"] == 3
    worker.records.started.wait_once(publish(redis_space.url, {"fast": 2, "slow": 2}).all())


def test_install_lets_a_publisher_reach_the_queues() -> None:
    from celery_fair import install

    app = Celery("shop", broker="memory://", set_as_current=False)
    app.conf.update(fair_queues=FAIR, task_create_missing_queues=True)
    assert install(app) is app
    app.finalize()
    assert {"celery", "fast", "slow"} == app.amqp.queues.keys()


BAD: dict[str, tuple[dict[str, Any], list[str]]] = {
    "unknown option": ({"fair_queues": {"q": {"quantun": 1}}}, ["'q'", "quantun", "quantum"]),
    "unknown setting": ({"fair_qeues": {}}, ["fair_qeues", "fair_queues"]),
    "zero": ({"fair_queues": {"q": {"quantum": 0}}}, ["'q'", "quantum", "0", "above zero"]),
    "negative": ({"fair_queues": {"q": {"quantum": -2}}}, ["'q'", "quantum", "-2"]),
    "nan": ({"fair_queues": {"q": {"quantum": NAN}}}, ["'q'", "quantum", "nan", "finite"]),
    "inf": ({"fair_queues": {"q": {"quantum": INF}}}, ["'q'", "quantum", "inf", "finite"]),
    "text": ({"fair_queues": {"q": {"quantum": "4"}}}, ["'q'", "quantum", "'4'", "number"]),
    "bool": ({"fair_queues": {"q": {"quantum": True}}}, ["'q'", "quantum", "True", "number"]),
    "none": ({"fair_queues": {"q": {"quantum": None}}}, ["'q'", "quantum", "None", "number"]),
    "huge": ({"fair_queues": {"q": {"quantum": 10**400}}}, ["'q'", "quantum", "number"]),
    "options": ({"fair_queues": {"q": 4}}, ["'q'", "mapping", "4"]),
    "queues as a list": ({"fair_queues": ["q"]}, ["fair_queues", "mapping", "['q']"]),
    "queues as an empty list": ({"fair_queues": []}, ["fair_queues", "mapping", "[]"]),
    "queues as zero": ({"fair_queues": 0}, ["fair_queues", "mapping", "0"]),
    "name of another type": ({"fair_queues": {5: {}}}, ["fair_queues", "5", "name"]),
    "empty name": ({"fair_queues": {"": {}}}, ["fair_queues", "''", "name"]),
    "blank name": ({"fair_queues": {" ": {}}}, ["fair_queues", "' '", "name"]),
    "long name": ({"fair_queues": {"q" * 256: {}}}, ["fair_queues", "255"]),
    "prefetch zero": ({"fair_queues": {"q": {"prefetch": 0}}}, ["'q'", "prefetch", "0"]),
    "prefetch text": ({"fair_queues": {"q": {"prefetch": "9"}}}, ["'q'", "prefetch", "'9'"]),
    "prefetch float": ({"fair_queues": {"q": {"prefetch": 1.5}}}, ["'q'", "prefetch", "1.5"]),
    "prefetch bool": ({"fair_queues": {"q": {"prefetch": True}}}, ["'q'", "prefetch", "True"]),
    "prefetch too large": ({"fair_queues": {"q": {"prefetch": 65536}}}, ["'q'", "65535"]),
    "default quantum": ({"fair_default_quantum": 0}, ["fair_default_quantum", "0", "above zero"]),
    "cost of another number": ({"fair_cost": 2}, ["fair_cost", "2", "callable"]),
    "cost true": ({"fair_cost": True}, ["fair_cost", "True", "callable"]),
    "cost that is no path": ({"fair_cost": "heavy"}, ["fair_cost", "'heavy'"]),
    "cost that is not there": ({"fair_cost": "no.such.thing"}, ["fair_cost", "no.such.thing"]),
    "cost that is not callable": ({"fair_cost": "os.sep"}, ["fair_cost", "callable"]),
    "cost key that is no path": (
        {"fair_cost": "runtime", "fair_cost_key": "key"},
        ["fair_cost_key", "'key'"],
    ),
    "cost key that is a number": (
        {"fair_cost": "runtime", "fair_cost_key": 1},
        ["fair_cost_key", "callable", "1"],
    ),
    "cost key without run times": ({"fair_cost_key": "builtins.len"}, ["fair_cost_key", "runtime"]),
    "cost model without run times": ({"fair_cost_model": "x"}, ["fair_cost_model", "runtime"]),
    "cost model": (
        {"fair_cost": "runtime", "fair_cost_model": 3},
        ["fair_cost_model", "text", "3"],
    ),
    "event log": ({"fair_event_log": 7}, ["fair_event_log", "text", "7"]),
    "fsync": (
        {"fair_event_log_fsync": "sometimes"},
        ["fair_event_log_fsync", "'never', 'seal', 'always'", "'sometimes'"],
    ),
    "rotate": ({"fair_event_log_rotate": 0}, ["fair_event_log_rotate", "seconds", "0"]),
    "fast path": ({"fair_fast_path": "no"}, ["fair_fast_path", "True or False", "'no'"]),
    "ack batch": ({"fair_ack_batch": 0}, ["fair_ack_batch", "whole number", "0"]),
    "lease": ({"fair_group_lease": 0}, ["fair_group_lease", "seconds", "0"]),
    "recovery": ({"fair_group_recovery": 0}, ["fair_group_recovery", "above zero, or None", "0"]),
    "what follows from the lease": ({"fair_group_margin": 5}, ["fair_group_margin", "group_lease"]),
    "log limit": ({"fair_event_log_limit": -1}, ["fair_event_log_limit", "whole number", "-1"]),
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_setting_is_refused(bad: str) -> None:
    conf, said = BAD[bad]
    app = Celery("bad", set_as_current=False)
    app.conf.update(conf)

    with pytest.raises(ImproperlyConfigured) as refused:
        Settings.of(app)

    assert [word for word in said if word not in str(refused.value)] == []


@pytest.mark.parametrize("cost", [1, 1.0, len, "builtins.len", "builtins:len"])
def test_good_cost_is_accepted(cost: float | str | Callable[..., Any]) -> None:
    app = Celery("good", set_as_current=False)
    app.conf.update(fair_cost=cost)
    assert Settings.of(app).cost in (None, len)


def test_run_times() -> None:
    app = Celery("good", set_as_current=False)
    app.conf.update(fair_cost="runtime", fair_cost_key="builtins.len", fair_cost_model="costs.json")
    settings = Settings.of(app)
    assert (settings.cost, settings.cost_key, settings.cost_model) == ("runtime", len, "costs.json")


STOPPING = {
    **{name: BAD[name][0] for name in ("unknown option", "zero", "unknown setting")},
    "a name that is no queue": {"fair_queues": {"q": {}}, "task_create_missing_queues": False},
}


@pytest.mark.parametrize("bad", STOPPING)
def test_bad_setting_stops_the_worker(
    redis_space: Space, start_worker: StartWorker, bad: str
) -> None:
    worker = start_worker(redis_space, wait=False, queues=["mine"], conf=STOPPING[bad])

    assert worker.wait() == 2

    assert "Error: fair_q" in worker.log()
    assert "Traceback" not in worker.log()
