"""Workers of a version that told less of their queues."""

from __future__ import annotations

import json

import pytest
from celery import Celery
from celery.bin.base import CLIContext
from click.testing import CliRunner, Result
from kombu import Queue

from celery_fair import install
from celery_fair.cli import fair
from celery_fair.cli.live.answers import Answers
from tests.brokers import Space
from tests.workers import StartWorker

OLDER = """
from celery_fair.worker.observe import answers

told = answers.Answers.status


def less(self):
    return {queue: {"served": row["served"]} for queue, row in told(self).items()}


answers.Answers.status = less
from tests.apps.shares import *
"""


@pytest.mark.newest
def test_what_they_do_not_tell_is_left_open(redis_space: Space, start_worker: StartWorker) -> None:
    options = {"queues": ["jobs"], "wait": False}
    newer, older = (
        start_worker(redis_space, **options),
        start_worker(redis_space, app=OLDER, **options),
    )
    for worker in (newer, older):
        worker.wait_ready()
        assert worker.inspect("ping")
    app = Celery("shares", broker=redis_space.url, set_as_current=False)
    app.conf.task_queues = [Queue("jobs", routing_key="jobs")]
    install(app)

    def asked(*words: str) -> Result:
        done = CliRunner().invoke(fair, words, obj=CLIContext(app=app, no_color=True, workdir=None))
        assert (done.exit_code, done.exception) == (0, None), done.output
        return done

    told = json.loads(asked("status", "--json", "-t", "3").stdout)
    assert told[older.hostname] == {"jobs": {"served": 0}}
    assert told[newer.hostname]["jobs"]["quantum"] == 1
    for by in ("queue", "worker"):
        assert " jobs " in asked("status", "--by", by, "-t", "3").stdout
        assert (
            " jobs " in asked("top", "-n", "2", "--interval", "0.1", "--by", by, "-t", "3").stdout
        )
    sums = json.loads(asked("status", "--by", "queue", "--json", "-t", "3").stdout)
    assert sums["jobs"]["workers"] == 2
    found = json.loads(asked("doctor", "--json", "--timeout", "3").stdout)
    assert f"worker {older.hostname}" not in {each["topic"] for each in found}


@pytest.mark.parametrize("answer", ["pong", None, [], {"jobs": 3}])
def test_what_is_no_answer_at_all(answer: object) -> None:
    """As of another library's command of the same name."""
    answers = Answers.of({"w": answer}, (), 1.0).completed()
    assert answers.good == {"w": {}}
