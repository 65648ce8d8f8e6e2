"""Two workers of one name: nobody is told that what is seen is all."""

from __future__ import annotations

import json
from typing import Any

from celery import Celery
from celery.bin.base import CLIContext
from click.testing import CliRunner, Result
from kombu import Queue

from celery_fair import install
from celery_fair.cli import fair
from tests.brokers import Space
from tests.workers import StartWorker

NOTE = "more than one worker has this name, and only one of them is seen here, or told anything"


def test_they_are_named(redis_space: Space, start_worker: StartWorker) -> None:
    """On RabbitMQ kombu warns the second one, or has it end."""
    options: dict[str, Any] = {"queues": ["jobs"], "wait": False}
    one, two = (start_worker(redis_space, args=["-n", "same@host"], **options) for _ in "ab")
    other = start_worker(redis_space, **options)
    for worker in (one, two, other):
        worker.wait_ready()
    assert other.inspect("ping")
    app = Celery("shares", broker=redis_space.url, set_as_current=False)
    app.conf.task_queues = [Queue("jobs", routing_key="jobs")]
    install(app)

    def asked(*words: str) -> Result:
        context = CLIContext(app=app, no_color=True, workdir=None)
        return CliRunner().invoke(fair, words, obj=context)

    for words in (["status"], ["pause", "jobs", "--json"], ["resume", "jobs", "--json"]):
        said = asked(*words, "-t", "3")
        assert said.exit_code == 0, said.output
        assert said.stderr.count("Note: ") == 1
        assert f"Note: same@host: {NOTE}" in said.stderr

    top = asked("top", "-n", "2", "--interval", "0.1", "-t", "3", "--json")
    assert [json.loads(line)["twice"] for line in top.stdout.splitlines()] == [["same@host"]] * 2
    assert f"same@host: {NOTE}" in asked("top", "-n", "1", "-t", "3").stdout

    found = json.loads(asked("doctor", "--json", "--timeout", "3").stdout)
    (finding,) = (each for each in found if each["topic"] == "workers: names")
    assert (finding["level"], finding["text"].split(":")[0]) == ("weak", "same@host")
