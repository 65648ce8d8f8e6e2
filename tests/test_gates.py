"""The gates of a worker's queues are what the settings say."""

from __future__ import annotations

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


def test_what_is_kept_meanwhile() -> None:
    """What was set live and is not kept stays, unless the queue's is news."""
    kept = dict.fromkeys("pqrs", KeptQueue())
    with Celery("app", broker="memory://", set_as_current=False) as app:
        gates = Gates(Settings.of(app), "worker", kept.__getitem__)
    for queue in kept:
        gates.of(queue)
    gates.of("q").pause(True)
    gates.of("r").pause(True)
    options = {"quantum": 8.0}
    kept |= {"p": KeptQueue(options, paused=True), "q": KeptQueue(options)}
    assert list(gates.news()) == [("p", options), ("q", options)]
    assert [queue for queue in kept if gates.of(queue).paused] == ["p", "q", "r"]
    assert not list(gates.news())
    kept["p"] = KeptQueue()
    assert list(gates.news()) == [("p", {})]
    assert not gates.of("p").paused


def test_what_was_set_live_is_no_news() -> None:
    """Nor does it come back later, when it was set otherwise since."""
    kept = {"p": KeptQueue({"quantum": 8.0}, paused=True)}
    with Celery("app", broker="memory://", set_as_current=False) as app:
        gates = Gates(Settings.of(app), "worker", kept.__getitem__)
    gates.of("p").pause(False)
    gates.set_live("p")
    kept["p"] = KeptQueue({"quantum": 8.0})
    gates.of("p").pause(True)  # and is not kept
    assert not list(gates.news())
    kept["p"] = KeptQueue({"quantum": 8.0, "burst": 2.0})
    assert list(gates.news()) == [("p", {"burst": 2.0})]
    assert gates.of("p").paused
