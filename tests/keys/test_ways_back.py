"""What was sorted by key while a queue was one of ``fair_keys``, and is not any more."""

from __future__ import annotations

import re

import pytest
from celery import Celery
from celery.bin.base import CLIContext
from click.testing import CliRunner, Result

from celery_fair import install
from celery_fair.cli import fair
from celery_fair.routing import floods
from tests.brokers import Space
from tests.integration.depths import left
from tests.keys.tenants import QUEUE, publisher, send
from tests.workers import StartWorker

MANY = 50


@pytest.fixture(params=["redis", "rabbitmq"])
def space(request: pytest.FixtureRequest) -> Space:
    found: Space = request.getfixturevalue(f"{request.param}_space")
    return found


def run(space: Space, *words: str) -> Result:
    """A command of an app without ``fair_keys``."""
    with Celery("shop", broker=space.url, set_as_current=False) as app:
        app.conf.task_default_queue = QUEUE
        install(app)
        context = CLIContext(app=app, no_color=True, workdir=None)
        return CliRunner().invoke(fair, words, obj=context)


def test_who_does_not_look_there_says_so(
    space: Space, start_worker: StartWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The doctor; and all of it is put back without the setting."""
    monkeypatch.setattr(floods, "_RATE", 1e-6)  # however long it takes to publish
    with publisher(space.url) as app:
        ids = send(app, "acme", MANY)
    worker = start_worker(space, queues=[QUEUE], quiet=False)
    found = run(space, "doctor", "--json", "--timeout", "0").stdout
    (count,) = map(int, re.findall(r"(\d+) messages wait by key", found))
    assert MANY - 3 <= count <= MANY

    merged = run(space, "keys", "merge", "--all")
    assert merged.output == f"{count} messages are back in {QUEUE}\n", merged.output
    worker.records.started.wait_once(ids)
    assert run(space, "keys", "merge", "--all").output == "no messages wait by key\n"
    if space.kind == "rabbitmq":
        assert run(space, "keys", "shrink", QUEUE, "--yes").exit_code == 1, "a worker runs"
    assert worker.stop() == 0
    assert left(space, QUEUE) == 0


@pytest.mark.parametrize("words", [[], [QUEUE, "--all"]])
def test_one_queue_or_all(space: Space, words: list[str]) -> None:
    refused = run(space, "keys", "merge", *words)
    assert refused.exit_code == 2
    assert "name a QUEUE, or say --all" in refused.output
    before = set(space.depths())
    assert run(space, "keys", "merge", "nosuch").output == "0 messages are back in nosuch\n"
    assert set(space.depths()) == before  # nothing is made
