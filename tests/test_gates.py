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


def test_what_was_kept_meanwhile() -> None:
    """What was set here since stays as it is, and what was heard is not said again."""
    kept = {"q": KeptQueue({"quantum": 4.0}, paused=False), "r": KeptQueue()}
    with Celery("app", broker="memory://", set_as_current=False) as app:
        app.conf.fair_queues = {"q": {"quantum": 2}, "r": {}}
        gates = Gates(Settings.of(app), "worker", kept.__getitem__)
    gates.of("r")
    assert gates.of("q").options.quantum == 4
    assert not list(gates.missed())

    kept["q"] = KeptQueue({"quantum": 8.0, "max_in_flight": 3}, paused=True)
    ((queue, options, paused),) = gates.missed()
    assert (queue, options.quantum, options.max_in_flight, paused) == ("q", 8, 3, True)
    gates.change("q", options)
    gates.of("q").pause(paused)
    assert not list(gates.missed())

    gates.change("q", replace(options, quantum=5.0))  # and not kept
    kept["q"] = KeptQueue()
    ((_, options, paused),) = gates.missed()
    assert (options.quantum, options.max_in_flight, paused) == (5, None, False)
