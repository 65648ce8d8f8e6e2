"""What is written of what a queue is shared by, and when."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery

from celery_fair.eventlog import EventLog, Policy
from celery_fair.settings import QueueOptions, Settings
from celery_fair.worker.observe import queue_settings
from celery_fair.worker.observe.queue_settings import QueueSettings
from tests.eventlog.reading import Record, records
from tests.eventlog.test_worker import check_schema


class Scene:
    """One queue of a worker that is not there, and what is written of it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, **conf: Any) -> None:
        self.folder = folder
        self.now = 1000.0
        monkeypatch.setattr(queue_settings, "monotonic", lambda: self.now)
        app = Celery("shop", broker="memory://", set_as_current=False)
        app.conf.update(conf)
        settings = Settings.of(app)
        self.live: dict[str, float] = {}
        self.gate = SimpleNamespace(options=settings.queue("q"))
        by_key = SimpleNamespace(live_weights=lambda: self.live)
        self.room = SimpleNamespace(wanted=8)
        self.feed = SimpleNamespace(
            name="q", gate=self.gate, room=self.room, pushes=True, by_key=by_key
        )
        self.feeds: Any = [self.feed]
        self.settings = QueueSettings(self.feeds, settings, EventLog(Policy(folder), "w"))

    def look(self) -> list[Record]:
        """Return what is there after the next look."""
        self.settings.look()
        check_schema(self.folder)
        return records(self.folder, "settings")


def test_what_a_queue_is_shared_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"quantum": 3, "class": 2, "rate": "10/s", "burst": 5, "max_in_flight": 4}
    conf = {"fair_cost": "runtime", "fair_policy": "strict", "fair_max_wait": 9}
    scene = Scene(tmp_path, monkeypatch, fair_queues={"q": options}, **conf)
    (said,) = scene.look()
    said = {name: said[name] for name in said if name not in ("v", "node", "pid", "boot", "at")}
    assert said == {
        "kind": "settings",
        "seq": 0,
        "queue": "q",
        "costs": "runtime",
        "policy": "strict",
        "max_wait": 9,
        "quantum": 3,
        "level": 2,
        "target": None,
        "importance": None,
        "rate": 10,
        "burst": 5,
        "scope": "worker",
        "cap": 4,
        "fetch": "push",
        "ahead": 8,
    }


def test_when_something_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(tmp_path, monkeypatch)
    assert [r["costs"] for r in scene.look()] == ["one"]
    scene.gate.options = QueueOptions(quantum=1.0)  # equal, though another
    assert len(scene.look()) == 1
    scene.gate.options = QueueOptions(quantum=7.0)
    assert [r["quantum"] for r in scene.look()] == [1.0, 7.0]


def test_again_before_the_file_that_says_so_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And windows, which adapt all the time, are no change."""
    scene = Scene(tmp_path, monkeypatch)
    for at in (1000.0, 4599.0, 4600.0, 4601.0):
        scene.now = at
        scene.look()
        scene.room.wanted += 1
    assert [said["ahead"] for said in scene.look()] == [8, 8]
    scene.gate.options = QueueOptions(quantum=7.0)
    assert scene.look()[-1]["ahead"] == 12


def test_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {"acme": {"weight": 5, "max_in_flight": None}, "trial": {"rate": "2/s", "burst": 3}}
    scene = Scene(tmp_path, monkeypatch, fair_keys={"q": {"max_in_flight": 8, "keys": keys}})
    scene.look()
    scene.live = {"acme": 2.0, "late": 9.0}
    first, second = scene.look()
    by_key = {name: value for name, value in first.items() if name.startswith("key_")}
    assert by_key == {
        "key_weight": 1,
        "key_weights": {"acme": 5},
        "key_cap": 8,
        "key_caps": {"acme": 0, "trial": 8},
        "key_rate": None,
        "key_rates": {"acme": 0, "trial": 2},
        "key_burst": None,
        "key_bursts": {"acme": 1, "trial": 3},
    }
    assert first["fetch"] == "pull"
    assert second["key_weights"] == {"acme": 2, "late": 9}
