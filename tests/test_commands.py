"""What all commands have in common: a mistyped one is understood, none ends in a traceback."""

from __future__ import annotations

import os
from typing import Any

import click
import pytest
from amqp import AccessRefused
from celery import Celery
from celery.bin.base import CLIContext
from click.testing import CliRunner, Result

from celery_fair.cli import fair
from celery_fair.cli.groups import TRACEBACK, told_in_one_line
from tests.brokers import RabbitMQ

OF_AN_APP = [
    *("status", "top -n 1", "explain bulk", "set bulk quantum=2", "pause bulk", "resume bulk"),
    *("keys list jobs", "keys merge jobs", "keys show jobs acme", "keys shrink jobs --yes"),
    *("keys set jobs acme weight=2", "keys pause jobs acme", "keys resume jobs acme"),
    *("keys purge jobs acme --yes", "keys purge jobs --all --yes"),
    *("keys drop jobs acme --yes", "doctor", "partitions status", "partitions create"),
    *("partitions add orders 1", "partitions remove orders.1", "partitions rebalance"),
    *("dead-letters count", "dead-letters list", "dead-letters show x"),
    *("dead-letters replay --all", "dead-letters purge --all --yes"),
]


def run(words: str, url: str, **conf: Any) -> Result:
    app = Celery("shop", broker=url, set_as_current=False)
    app.conf.update(fair_keys={"jobs": {}}, fair_queues={"bulk": {}}, task_default_queue="bulk")
    app.conf.update(conf)
    obj = CLIContext(app=app, no_color=True, workdir=None)
    return CliRunner().invoke(fair, words.split(), obj=obj)


@pytest.mark.parametrize("words", OF_AN_APP)
@pytest.mark.parametrize("url", ["htp://x", "amqp://guest@127.0.0.1:1//", "redis://127.0.0.1:1/0"])
def test_a_broker_that_is_not_there(words: str, url: str) -> None:
    outcome = run(words, url)
    assert outcome.exit_code == 1
    assert isinstance(outcome.exception, SystemExit)
    assert "Error: " in outcome.output or "wrong" in outcome.output


@pytest.fixture(scope="module")
def forbidden(rabbitmq: RabbitMQ) -> str:
    """The URL of a user who may do nothing, where there are queues with messages."""
    space = rabbitmq.space()
    app = Celery("shop", broker=space.url, set_as_current=False)
    with app.connection_for_write() as connection:
        for name in ("bulk", "jobs", "jobs.fair", "jobs.fair.0", "dead-letters"):
            connection.default_channel.queue_declare(name, durable=True, auto_delete=False)
            connection.Producer().publish("{}", routing_key=name)
    return rabbitmq.add_user(f"powerless{os.getpid()}", space.place, "^$", "^$", "^$")


@pytest.mark.parametrize("words", OF_AN_APP)
def test_a_user_who_may_do_nothing(words: str, forbidden: str) -> None:
    outcome = run(words, forbidden)
    assert outcome.exception is None or isinstance(outcome.exception, SystemExit), outcome.exception
    assert "Traceback" not in outcome.output
    looks = words == "keys list jobs"  # whoever may log in may count
    assert outcome.exit_code == (0 if looks else 1), outcome.output


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("statsu", "    status\n"),
        ("dead-letters reply --all", "    replay\n"),
        ("partitions stauts", "    status\n"),
    ],
)
def test_a_mistyped_command(words: str, meant: str) -> None:
    outcome = CliRunner().invoke(fair, words.split())
    assert outcome.exit_code == 2
    assert "Did you mean one of these?" in outcome.stderr
    assert meant in outcome.stderr


def test_nothing_that_is_like_it() -> None:
    outcome = CliRunner().invoke(fair, ["xyzzy"])
    assert (outcome.exit_code, "Did you mean" in outcome.stderr) == (2, False)


def test_one_line_of_whatever_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    one_line = r"^KeyError: 'a b' \(with[^\n]*$"
    with pytest.raises(click.ClickException, match=one_line), told_in_one_line():
        raise KeyError("a b")
    with pytest.raises(click.ClickException, match="its user may not do that"), told_in_one_line():
        raise AccessRefused("no\nno")
    monkeypatch.setenv(TRACEBACK, "1")
    with pytest.raises(KeyError), told_in_one_line():
        raise KeyError("a")
