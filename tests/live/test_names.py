"""Names that would do something to a terminal: whoever may publish, or answer, chooses them."""

from __future__ import annotations

import io
import json
import re

import click
import pytest
from celery import Celery
from celery.bin.base import CLIContext
from click.testing import CliRunner, Result
from rich.console import Console

from celery_fair import install
from celery_fair.cli import fair
from celery_fair.cli.drawing import DrawnScreen
from celery_fair.cli.groups import told_in_one_line
from celery_fair.cli.screen import Line, PlainScreen, Table
from tests.brokers import Space
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

    def asked(*words: str) -> Result:
        return CliRunner().invoke(
            fair, [*words, "-t", "3"], obj=CLIContext(app=app, no_color=True, workdir=None)
        )

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
        ["status", "-d", f"gone{HOSTILE}"],
    ):
        said = asked(*words).output
        assert SHOWN in said, (words, said)
        assert not CONTROL.search(said), (words, said)
    doctor = CliRunner().invoke(
        fair, ["doctor", "--timeout", "3"], obj=CLIContext(app=app, no_color=True, workdir=None)
    )
    assert "x1b[2J" in doctor.output
    assert not CONTROL.search(doctor.output), doctor.output


def test_no_screen_writes_them() -> None:
    parts = [
        Line(f"one{HOSTILE}\ntwo"),
        Table([["queue"], [HOSTILE]], caption=f"[red]{HOSTILE}"),
    ]
    written: list[str] = []
    PlainScreen(lambda text, err: written.append(text)).show(*parts)
    stream = io.StringIO()
    DrawnScreen(Console(file=stream, width=80, color_system=None)).show(*parts)
    for said in ("\n".join(written), stream.getvalue()):
        assert f"one{SHOWN}\ntwo" in re.sub(r" +\n", "\n", said)
        assert f"[red]{SHOWN}" in said.replace("\n", "")  # a narrow table's caption is folded
        assert not CONTROL.search(said)


@pytest.mark.parametrize("error", [click.ClickException, click.UsageError, ValueError])
def test_no_error_writes_them(error: type[Exception]) -> None:
    with pytest.raises(click.ClickException) as told, told_in_one_line():
        raise error(f"said {HOSTILE}\nand more")
    assert SHOWN in told.value.message
    assert not CONTROL.search(told.value.message)
