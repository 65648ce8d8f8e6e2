"""Names that would do something to a terminal: whoever may publish, or answer, chooses them."""

from __future__ import annotations

import json
import re

import click
import pytest
from celery import Celery
from celery.bin.base import CLIContext
from click.testing import CliRunner, Result

from celery_fair import install
from celery_fair.cli import fair
from celery_fair.cli.groups import told_in_one_line
from celery_fair.cli.rows import SUMMED, tables
from tests.brokers import Space
from tests.test_live_cli import row
from tests.waiting import wait_for
from tests.workers import StartWorker

HOSTILE = "\x1b[2J\x9b1m\u202e"
SHOWN = r"\x1b[2J\x9b1m\u202e"
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")


def test_no_command_writes_them(redis_space: Space, start_worker: StartWorker) -> None:
    name, queue = f"w{HOSTILE}@host", f"q{HOSTILE}"
    worker = start_worker(redis_space, queues=[queue], args=["-n", name])
    app = Celery("shares", broker=redis_space.url, set_as_current=False)
    app.conf.fair_queues = {queue: {"quantum": 3}}
    install(app)

    def asked(command: str, *words: str) -> Result:
        given = [command, "-d", name, "-t", "30", *words]
        return CliRunner().invoke(fair, given, obj=CLIContext(app=app, no_color=True, workdir=None))

    ping = worker.client.control.ping  # on Redis a command that comes too early is lost
    wait_for(lambda: ping([name], timeout=5), 60, worker.log)
    assert name in json.loads(asked("status", "--json").stdout), worker.log()
    for words in (
        ["status"],
        ["status", "--by", "worker"],
        ["top", "-n", "1"],
        ["top", "-n", "1", "--by", "worker"],
        ["explain", queue],
        ["explain", "nosuch"],
        ["set", queue, "quantum=2"],
        ["pause", queue],
        ["resume", queue],
        ["status", "-d", f"gone{HOSTILE}", "-t", "1"],
    ):
        said = asked(*words).output
        assert SHOWN in said, (words, said)
        assert not CONTROL.search(said), (words, said)
    doctor = CliRunner().invoke(
        fair, ["doctor", "--timeout", "3"], obj=CLIContext(app=app, no_color=True, workdir=None)
    )
    assert "x1b[2J" in doctor.output
    assert not CONTROL.search(doctor.output), doctor.output


def test_no_table_writes_them() -> None:
    said = "\n".join(tables(SUMMED, {f"[red]{HOSTILE}": {}, HOSTILE: row(HOSTILE)}, 80))
    said = click.unstyle(said)
    assert f"[red]{SHOWN}" in said
    assert said.count(SHOWN) == 3
    assert not CONTROL.search(said)


@pytest.mark.parametrize("error", [click.ClickException, click.UsageError, ValueError])
def test_no_error_writes_them(error: type[Exception]) -> None:
    with pytest.raises(click.ClickException) as told, told_in_one_line():
        raise error(f"said {HOSTILE}\nand more")
    assert SHOWN in told.value.message
    assert not CONTROL.search(told.value.message)
