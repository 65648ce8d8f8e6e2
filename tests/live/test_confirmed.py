"""``fair set`` in two steps: who is asked, who is told, and who has confirmed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from celery import Celery
from celery.bin.base import CLIContext
from click.testing import CliRunner

from celery_fair.cli import fair
from celery_fair.operate.answers import Answers
from celery_fair.operate.workers import Workers
from tests.brokers import Space
from tests.workers import StartWorker


@pytest.fixture
def space(redis_space: Space) -> Space:
    return redis_space


@pytest.mark.parametrize("keep", [[], ["--keep"]], ids=["", "kept"])
def test_nobody_has_confirmed(
    space: Space, start_worker: StartWorker, monkeypatch: pytest.MonkeyPatch, keep: list[str]
) -> None:
    """What has become of the change is not known, and that is said."""
    worker = start_worker(space, queues=["jobs"])
    assert worker.inspect("ping")
    ask, asked = Workers.ask, []

    def ask_and_kill(self: Workers, *words: Any, **arguments: Any) -> Answers:
        asked.append(words)
        if len(asked) == 2:
            worker.kill()
        return ask(self, *words, **arguments)

    monkeypatch.setattr(Workers, "ask", ask_and_kill)
    app = Celery("shares", broker=space.url, set_as_current=False)
    words = ["set", "jobs", "quantum=3", "-d", worker.hostname, "-t", "5", *keep]
    done = CliRunner().invoke(fair, words, obj=CLIContext(app=app, no_color=True, workdir=None))
    assert (done.exit_code, done.stdout) == (1, "")
    assert f"Error: {worker.hostname}: was told, but has not confirmed within 5 s" in done.stderr
    assert ("It is kept, and holds for workers" in done.stderr) == bool(keep)


def test_sums_of_nobody_are_a_document(space: Space, start_worker: StartWorker) -> None:
    worker = start_worker(space, fair=False)
    assert worker.inspect("ping")
    app = Celery("shares", broker=space.url, set_as_current=False)
    for by in ("queue", "worker"):
        words = ["status", "--json", "--by", by, "-d", worker.hostname, "-t", "20"]
        done = CliRunner().invoke(fair, words, obj=CLIContext(app=app, no_color=True, workdir=None))
        assert (done.exit_code, json.loads(done.stdout)) == (1, {})
        assert done.stderr == f"Error: {worker.hostname}: this worker has no FairConsumerStep\n"
