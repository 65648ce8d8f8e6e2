"""The gates of a worker's queues are what the settings say."""

from __future__ import annotations

from dataclasses import replace
from time import monotonic

from celery import Celery

from celery_fair.brokers.kept import KeptQueue
from celery_fair.settings import Settings
from celery_fair.worker.dispatch.gates import Gates


def test_a_queue_with_a_rate_has_a_leash() -> None:
    with Celery("app", broker="memory://", set_as_current=False) as app:
        app.conf.fair_queues = {"leashed": {"rate": "0.001/s", "burst": 3}, "free": {}}
        gates = Gates(Settings.of(app), "worker")
    now = monotonic()
    passed = {name: [gates.of(name).hold(now, 0) for _ in range(4)] for name in ("leashed", "free")}
    assert passed["leashed"][:3] == [None] * 3
    assert passed["leashed"][3] is not None
    assert passed["free"] == [None] * 4


def test_what_is_kept_is_read_late() -> None:
    """What was set live meanwhile stays as it is."""
    kept = dict.fromkeys("pqrs", KeptQueue())
    with Celery("app", broker="memory://", set_as_current=False) as app:
        gates = Gates(Settings.of(app), "worker", kept.__getitem__)
    for queue in kept:
        gates.of(queue)
    gates.change("q", replace(gates.options("q"), quantum=5.0))
    gates.of("r").pause(True)
    kept |= dict.fromkeys("pqr", KeptQueue({"quantum": 8.0}, paused=True))
    assert list(gates.read_late()) == [("p", kept["p"])]
