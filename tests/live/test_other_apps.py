"""Workers of two apps on one broker: what is said of one does not reckon with the other's."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from celery import Celery
from celery.bin.base import CLIContext
from click.testing import CliRunner, Result
from kombu import Queue

from celery_fair import install
from celery_fair.cli import fair
from celery_fair.operate.answers import Answers
from tests.brokers import Space
from tests.web.answered import row
from tests.workers import StartWorker, WorkerProcess

OTHER = """
from tests.apps.shares import *
app.main = {name!r}
"""

Asked = Callable[..., Result]


@pytest.fixture
def asked(space: Space) -> Asked:
    app = Celery("shares", broker=space.url, set_as_current=False)
    app.conf.task_queues = [Queue("jobs", routing_key="jobs")]
    app.conf.task_default_queue = "jobs"
    install(app)

    def run(*words: str) -> Result:
        context = CLIContext(app=app, no_color=True, workdir=None)
        return CliRunner().invoke(fair, words, obj=context)

    return run


@pytest.fixture
def workers(space: Space, start_worker: StartWorker) -> dict[str, WorkerProcess]:
    """Ours, one that has another name for our app, and another app's, with another quantum."""
    conf = {"fair_default_quantum": 7}
    started = {
        "ours": start_worker(space, wait=False, queues=["jobs"]),
        "alias": start_worker(space, wait=False, queues=["jobs"], app=OTHER.format(name="site")),
        "theirs": start_worker(
            space, wait=False, queues=["ledger"], app=OTHER.format(name="bank"), conf=conf
        ),
    }
    for worker in started.values():
        worker.wait_ready()
        assert worker.inspect("ping")
    return started


@pytest.mark.either_broker
def test_they_are_named_and_left_out(workers: dict[str, WorkerProcess], asked: Asked) -> None:
    ours, alias, theirs = (each.hostname for each in workers.values())
    said = asked("status", "--json", "-t", "3")
    assert said.exit_code == 0, said.output
    assert json.loads(said.stdout).keys() == {ours, alias}
    note = f"{theirs}: is a worker of another app, 'bank', and left out; -d {theirs} asks it\n"
    assert said.stderr == f"Note: {note}"
    named = asked("status", "--json", "-t", "10", "-d", theirs)
    assert (json.loads(named.stdout).keys(), named.stderr) == ({theirs}, "")

    top = asked("top", "-n", "2", "--interval", "0.1", "-t", "3", "--json")
    for line in top.stdout.splitlines():
        queues = json.loads(line)["queues"]
        assert (queues.keys(), queues["jobs"]["workers"]) == ({"jobs"}, 2)
    assert top.stderr == f"Note: {note}" * 2

    doctor = asked("doctor", "--json", "--timeout", "3")
    found = {each["topic"]: each for each in json.loads(doctor.stdout)}
    assert not [topic for topic in found if topic.startswith("worker worker")]
    assert found["workers that run"]["text"].endswith(", ".join(sorted([ours, alias])))
    said_of_others = found["workers of other apps"]
    assert said_of_others["level"] == "ok"
    assert said_of_others["text"].startswith(f"{theirs} (bank): ")

    for each in ("ours", "alias"):
        assert workers[each].stop() == 0
    alone = asked("status", "-t", "3")
    assert (alone.exit_code, alone.stdout, alone.stderr) == (1, "", f"Error: {note}")


def test_whose_a_worker_is() -> None:
    """Its app's, if that is known; what consumes a queue of ours is reckoned with, whosever."""
    answers = Answers.of(
        {
            "ours": {"jobs": row(app="shop")},
            "aside": {"aside": row(app="shop")},
            "shared": {"jobs": row(app="bank"), "ledger": row(app="bank")},
            "theirs": {"ledger": row(app="bank")},
            "older": {"ledger": row()},
            "nameless": {"ledger": row(app="")},
            "idle": {},
        },
        (),
        1.0,
    )
    assert answers.of_app("shop", {"jobs"}, ()).others == {"theirs": "bank"}
    assert "theirs" not in answers.of_app("shop", {"jobs"}, ()).good
    assert answers.of_app("shop", {"jobs"}, {"theirs"}) == answers
    assert answers.of_app("", {"jobs"}, ()) == answers
