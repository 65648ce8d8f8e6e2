"""`celery -A app fair status`, `top`, `explain`, `set`, `pause`, `resume`, on real workers."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest
from celery import Celery
from celery.bin.base import CLIContext
from click.testing import CliRunner
from click.testing import Result as Outcome

from celery_fair.cli import fair
from celery_fair.cli.rows import BY_WORKER, SUMMED, tables
from celery_fair.operate.answers import Answers
from celery_fair.operate.queues import live_options
from celery_fair.operate.text import figure
from celery_fair.operate.workers import Workers
from tests.apps.settings import AppSettings
from tests.brokers import RedisServer, Space
from tests.ports import free_port
from tests.preloaded import run_celery
from tests.processes import ROOT, Process
from tests.publishing import publish
from tests.waiting import wait_equal, wait_for
from tests.workers import DEFAULT_APP, StartWorker, WorkerProcess, starting_workers

FAIR = {
    "interactive": {"quantum": 40},
    "bulk": {"quantum": 10},
    "partner": {"rate": 0.01, "burst": 1},
}


# Workers ------------------------------------------------------------------


@pytest.fixture(scope="module")
def space(redis_server: RedisServer) -> Space:
    return redis_server.space()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("live")


@pytest.fixture(scope="module")
def workers(space: Space, folder: Path) -> Iterator[tuple[WorkerProcess, ...]]:
    """One of all queues, one of bulk alone, and one that is not fair."""
    conf = {"fair_queues": FAIR}
    with starting_workers(folder) as start:
        started = (
            start(space, wait=False, pool="threads", conf=conf, concurrency=2),
            start(space, wait=False, pool="threads", conf=conf, args=["-Q", "bulk"]),
            start(space, wait=False, fair=False, queues=["vanilla"]),
        )
        for worker in started:
            worker.wait_ready()
        assert all(worker.inspect("ping") for worker in started)  # hears commands, on Redis later
        yield started


@pytest.fixture
def worker(workers: tuple[WorkerProcess, ...]) -> WorkerProcess:
    return workers[0]


@pytest.fixture(scope="module")
def leashed(workers: tuple[WorkerProcess, ...], space: Space) -> str:
    """A queue whose leash holds messages back, for longer than the tests last."""
    publish(space.url, {"partner": 3})
    wait_equal(lambda: workers[0].control("fair_explain", queue="partner")["reason"], "leash")
    return "partner"


@pytest.fixture
def names(workers: tuple[WorkerProcess, ...]) -> tuple[str, ...]:
    return tuple(each.hostname for each in workers)


def context(app: Celery) -> CLIContext:
    return CLIContext(app=app, no_color=True, workdir=None)


@pytest.fixture
def invoke(worker: WorkerProcess) -> Callable[..., Outcome]:
    """Runs a command in this process, on the workers' broker."""

    def run(*words: str) -> Outcome:
        return CliRunner().invoke(fair, patiently(words), obj=context(worker.client))

    return run


def patiently(words: Sequence[str]) -> list[str]:
    """A command that lets workers stand still: named ones for long, as it ends when they answer."""
    if "-t" in words:
        return list(words)
    return [*words, "-t", "20" if "-d" in words else "6"]


def environment(space: Space) -> dict[str, str]:
    settings = AppSettings(broker_url=space.url, records=os.devnull)
    return os.environ | {"PYTHONPATH": str(ROOT)} | settings.environment()


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "celery", "-A", DEFAULT_APP, "fair", *words]


def celery(space: Space, *words: str) -> subprocess.CompletedProcess[str]:
    """`celery -A … fair …`."""
    return run_celery(["-A", DEFAULT_APP, "fair", *patiently(words)], ROOT, environment(space))


def quanta(worker: WorkerProcess) -> dict[str, float]:
    return {name: row["quantum"] for name, row in worker.inspect("_request", "fair_status").items()}


# status -------------------------------------------------------------------


def test_status_as_json(space: Space, names: tuple[str, ...]) -> None:
    done = celery(space, "status", "--json", "-d", ",".join(names[:2]))
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    assert set(answer) == set(names[:2])
    assert answer[names[0]].keys() >= FAIR.keys()
    assert answer[names[1]].keys() == {"bulk"}
    bulk = answer[names[1]]["bulk"]
    assert (bulk["quantum"], bulk["held"], bulk["in_flight"]) == (10, None, 0)


def test_status_as_text(space: Space, names: tuple[str, ...]) -> None:
    done = celery(space, "status", "--by", "worker")
    assert done.returncode == 0
    assert done.stderr == f"Note: {names[2]}: this worker has no FairConsumerStep\n"
    text = done.stdout
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text)
    assert [line for line in text.splitlines() if not line.startswith(" ")] == list(names[:2])
    assert re.search(r"queue +quantum +fair +share +credit +window +buffered +in flight", text)
    assert re.search(r"interactive +40 .* –\n", text)
    assert "0.01/s, burst 1" in text


def test_status_over_all_workers(space: Space, names: tuple[str, ...], leashed: str) -> None:
    done = celery(space, "status")
    assert done.returncode == 0
    first, head, *rows = done.stdout.splitlines()
    assert first == f"2 workers: {names[0]}, {names[1]}"
    assert head.split()[:4] == ["queue", "workers", "fair", "share"]
    assert re.search(r"at workers +at broker +oldest +empty in", head)
    figures = {row.split()[0]: row.split()[1:] for row in rows}
    assert (figures["bulk"][0], figures["interactive"][0]) == ("2", "1")
    assert re.search(rf"{leashed} +1 .* leash ", done.stdout)


def test_sums_over_all_workers(invoke: Callable[..., Outcome], space: Space, leashed: str) -> None:
    """What nobody consumes is not there; what waits, and for how long, is."""
    outcome = invoke("status", "--by", "queue", "--json")
    queues = json.loads(outcome.stdout)
    partner = queues[leashed]
    assert queues.keys() >= FAIR.keys()
    assert (queues["bulk"]["workers"], queues["bulk"]["waiting_at_broker"]) == (2, 0)
    assert queues["bulk"]["empty_in_seconds"] == 0
    assert partner["waiting_at_broker"] + partner["buffered"] == 2
    assert partner["oldest_seconds"] is None  # its publisher does not say when it was published
    assert partner["held"] == "leash"


def test_status_of_a_worker_that_is_not(invoke: Callable[..., Outcome]) -> None:
    outcome = invoke("status", "-d", "nobody@nowhere", "-t", "0.2")
    assert outcome.exit_code == 1
    assert outcome.stdout == ""
    assert "nobody@nowhere did not answer fair_status within 0.2 s on redis://" in outcome.stderr
    assert "`celery -A app status` shows the names of those that run there" in outcome.stderr


@pytest.mark.parametrize("names", ["", ",", "one@host,"])
def test_a_name_that_is_empty_is_not_all_workers(
    invoke: Callable[..., Outcome], names: str
) -> None:
    outcome = invoke("pause", "bulk", "-d", names)
    assert outcome.exit_code == 2
    assert "-d names no WORKER" in outcome.stderr


def test_status_of_a_worker_that_is_not_fair(
    invoke: Callable[..., Outcome], names: tuple[str, ...]
) -> None:
    outcome = invoke("status", "--json", "-d", names[2])
    assert outcome.exit_code == 1
    assert outcome.stderr == f"Error: {names[2]}: this worker has no FairConsumerStep\n"
    assert json.loads(outcome.stdout) == {}


def test_one_answers_and_one_does_not(
    invoke: Callable[..., Outcome], names: tuple[str, ...]
) -> None:
    outcome = invoke("status", "--json", "-d", names[0], "-d", "gone@x", "-t", "6")
    assert outcome.exit_code == 1
    assert set(json.loads(outcome.stdout)) == {names[0]}
    assert "Error: gone@x: no answer within 6 s" in outcome.stderr


def test_no_worker_at_all(space: Space, redis_server: RedisServer) -> None:
    app = Celery("nobody", broker=redis_server.space().url, set_as_current=False)
    outcome = CliRunner().invoke(fair, ["pause", "bulk", "-t", "0.2"], obj=context(app))
    assert outcome.exit_code == 1
    assert "no worker has answered fair_pause within 0.2 s on redis://" in outcome.stderr
    assert "`celery -A app status` shows the names" in outcome.stderr


@pytest.mark.parametrize("scheme", ["amqp", "redis"])
def test_no_broker(scheme: str) -> None:
    url = f"{scheme}://ann:secret@127.0.0.1:{free_port()}/0"
    app = Celery("nobody", broker=url, set_as_current=False)
    outcome = CliRunner().invoke(fair, ["status"], obj=context(app))
    assert outcome.exit_code == 1
    assert f"no connection to the broker {scheme}://ann:**@127.0.0.1" in outcome.stderr
    assert "secret" not in outcome.output


# explain ------------------------------------------------------------------


def test_explain(invoke: Callable[..., Outcome], leashed: str, names: tuple[str, ...]) -> None:
    told = invoke("explain", "interactive").stdout
    assert f"{names[0]}: interactive: no message is here" in told

    outcome = invoke("explain", leashed)
    assert outcome.exit_code == 0
    assert f"{names[0]}: partner: its leash has no token: 0.01/s" in outcome.stdout
    assert f"Note: {names[1]}: queue 'partner' is not consumed by this worker" in outcome.stderr
    answer = json.loads(invoke("explain", leashed, "--json", "-d", names[0]).stdout)
    assert answer[names[0]]["reason"] == "leash"
    assert re.search(r"partner .* leash \d+\.\d s", invoke("status", "-d", names[0]).stdout)


def test_explain_a_queue_that_nobody_consumes(
    space: Space, names: tuple[str, ...], invoke: Callable[..., Outcome]
) -> None:
    outcome = invoke("explain", "nosuch")
    assert outcome.exit_code == 1
    assert outcome.stdout == ""
    assert outcome.stderr.count("Error: ") == 3
    assert f"{names[1]}: queue 'nosuch' is not consumed by this worker; these are: bulk" in (
        outcome.stderr
    )


# set ----------------------------------------------------------------------


def test_set_at_all_workers(
    space: Space, workers: tuple[WorkerProcess, ...], names: tuple[str, ...]
) -> None:
    done = celery(space, "set", "bulk", "quantum=7", "rate=600/m", "burst=20")
    assert done.returncode == 0
    for name in names[:2]:
        assert f"{name}: bulk: quantum=7, rate=600/m, burst=20\n" in done.stdout
    for each in workers[:2]:
        row = each.inspect("_request", "fair_status")["bulk"]
        assert (row["quantum"], row["rate"], row["burst"]) == (7, 10, 20)


def test_set_at_one_worker(
    invoke: Callable[..., Outcome], workers: tuple[WorkerProcess, ...], names: tuple[str, ...]
) -> None:
    before = quanta(workers[0])["bulk"]
    outcome = invoke("set", "bulk", "quantum=2.5", "rate=none", "--json", "-d", names[1])
    assert outcome.exit_code == 0
    assert json.loads(outcome.stdout) == {names[1]: {"ok": "bulk: quantum=2.5, rate=none"}}
    assert quanta(workers[1])["bulk"] == 2.5
    assert quanta(workers[0])["bulk"] == before


def test_what_one_worker_refuses_no_worker_does(
    invoke: Callable[..., Outcome], workers: tuple[WorkerProcess, ...], names: tuple[str, ...]
) -> None:
    invoke("set", "bulk", "rate=5/s", "-d", names[0])
    invoke("set", "bulk", "rate=none", "-d", names[1])
    before = [quanta(each)["bulk"] for each in workers[:2]]

    outcome = invoke("set", "bulk", "quantum=99", "burst=3", "--json")

    assert outcome.exit_code == 1
    assert json.loads(outcome.stdout) == {
        names[1]: {"error": "set bulk: 'burst' needs a 'rate', such as '10/s'"},
        names[2]: {"error": "KeyError('fair_set')"},
    }
    assert outcome.stderr.startswith("Note: nothing was changed\n")
    assert f"Error: {names[1]}: set bulk: 'burst' needs a 'rate'" in outcome.stderr
    assert [quanta(each)["bulk"] for each in workers[:2]] == before


REFUSED = {
    "unknown option": (["colour=red"], "unknown option 'colour'; there are:"),
    "not live": (["exclusive=1"], "'exclusive' cannot be changed while consuming; these can:"),
    "one of two": (["quantum=3", "rate=fast"], "a rate is a number per second"),
    "zero": (["quantum=0"], "must be a finite number above zero, not 0"),
    "none for a number": (["burst=none"], "must be a whole number from 1 to"),
    "infinite": (["rate=inf"], "a rate is a number per second above zero"),
    "half a task": (["max_in_flight=1.5"], "must be a whole number from 1 to 65535"),
    "no value": (["quantum"], "'quantum' is not option=value; write, for example, quantum=40"),
    "twice": (["quantum=1", "quantum=2"], "'quantum' is given twice"),
    "nothing": ([], "Missing argument 'OPTION=VALUE...'"),
}


@pytest.mark.parametrize(("words", "message"), REFUSED.values(), ids=REFUSED)
def test_a_wrong_option_is_sent_to_nobody(
    monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.setattr(Workers, "ask", lambda *_, **__: pytest.fail("somebody was asked"))
    app = Celery("client", set_as_current=False)
    outcome = CliRunner().invoke(fair, ["set", "bulk", *words], obj=context(app))
    assert outcome.exit_code == 2
    assert message in outcome.stderr


def test_values() -> None:
    words = ["quantum=2.5", "rate=10/s", "burst=4", "max_in_flight=None", "prefetch=none"]
    assert live_options("q", words) == {
        "quantum": 2.5,
        "rate": "10/s",
        "burst": 4,
        "max_in_flight": None,
        "prefetch": None,
    }


# pause and resume ---------------------------------------------------------


def test_pause_and_resume(
    invoke: Callable[..., Outcome], worker: WorkerProcess, space: Space, names: tuple[str, ...]
) -> None:
    outcome = invoke("pause", "interactive")
    assert outcome.exit_code == 0
    assert f"{names[0]}: interactive: paused" in outcome.stdout
    assert f"Note: {names[1]}: queue 'interactive' is not consumed" in outcome.stderr
    ids = publish(space.url, {"interactive": 2}).all()
    wait_for(lambda: "paused" in invoke("status", "-d", names[0]).stdout, 30)
    assert not worker.records.started.times(ids)

    outcome = invoke("resume", "interactive", "--json", "-d", names[0])
    assert json.loads(outcome.stdout) == {names[0]: {"ok": "interactive: resumed"}}
    worker.records.started.wait_once(ids)


def test_pause_where_it_is_not_consumed(
    invoke: Callable[..., Outcome], names: tuple[str, ...]
) -> None:
    outcome = invoke("pause", "interactive", "-d", names[1])
    assert outcome.exit_code == 1
    assert "queue 'interactive' is not consumed by this worker" in outcome.stderr


# top ----------------------------------------------------------------------


def test_top_in_lines(space: Space, names: tuple[str, ...]) -> None:
    done = celery(
        space, "top", "--count", "2", "--interval", "0.1", "--by", "worker", "-d", names[0]
    )
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", done.stdout, re.MULTILINE)) == 2
    assert done.stdout.count(f"{names[0]}\n") == 2
    assert re.search(r"fair +share +credit .* starts/s", done.stdout)


def test_top_as_json(invoke: Callable[..., Outcome], names: tuple[str, ...]) -> None:
    words = ("-n", "3", "--interval", "0.1", "-d", names[0])
    outcome = invoke("top", "--json", "--by", "worker", *words)
    assert outcome.exit_code == 0
    pictures = [json.loads(line) for line in outcome.stdout.splitlines()]
    rates = [picture["workers"][names[0]]["bulk"]["per_second"] for picture in pictures]
    assert rates == [0, 0, 0]


def test_top_over_all_workers(invoke: Callable[..., Outcome], names: tuple[str, ...]) -> None:
    words = ("top", "-n", "1", "-d", ",".join(names[:2]))
    assert "at broker  oldest  empty in" in invoke(*words).stdout
    picture = json.loads(invoke(*words, "--json").stdout)
    assert picture["queues"]["bulk"]["workers"] == 2


def test_top_without_workers(invoke: Callable[..., Outcome], names: tuple[str, ...]) -> None:
    assert invoke("top", "-n", "1", "-d", "gone@x", "-t", "0.2").exit_code == 1
    outcome = invoke("top", "-n", "1", "-d", names[2])
    assert outcome.exit_code == 1
    assert "this worker has no FairConsumerStep" in outcome.stderr


def test_top_survives_a_worker(
    monkeypatch: pytest.MonkeyPatch, start_worker: StartWorker, redis_server: RedisServer
) -> None:
    last = start_worker(redis_server.space(), pool="threads", queues=["only"])
    assert last.inspect("ping")
    ask, asked = Workers.ask, []

    def ask_and_kill(self: Workers, *words: Any, **options: Any) -> Answers:
        asked.append(words)
        if len(asked) == 2:
            last.kill()
        return ask(self, *words, **options)

    monkeypatch.setattr(Workers, "ask", ask_and_kill)
    words = ["top", "--json", "-n", "3", "--interval", "0.1", "-t", "6", "-d", last.hostname]
    outcome = CliRunner().invoke(fair, words, obj=context(last.client))
    assert outcome.exit_code == 1
    pictures = [json.loads(line) for line in outcome.stdout.splitlines()]
    assert [bool(picture["queues"]) for picture in pictures] == [True, False, False]
    assert "did not answer fair_status" in pictures[2]["errors"]["all"]
    assert "Error: all: " in outcome.stderr


@contextmanager
def terminal(columns: int) -> Iterator[tuple[int, int]]:
    """A pseudo-terminal: our end and the command's."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, columns))
    try:
        yield ours, theirs
    finally:
        os.close(ours)
        os.close(theirs)


def test_top_on_a_terminal(
    space: Space, leashed: str, names: tuple[str, ...], tmp_path: Path
) -> None:
    with terminal(80) as (ours, theirs):
        before = termios.tcgetattr(theirs)
        words = command("top", "--interval", "0.2", "-t", "20", "-d", ",".join(names[:2]))
        env = environment(space) | {"TERM": "xterm"}
        top = Process(words, tmp_path / "log", env, stdin=theirs, stdout=theirs)
        try:
            shown = b""
            while b"Ctrl-C ends" not in shown:
                shown += os.read(ours, 65536)
            top.send(signal.SIGINT)
            assert top.wait(20) == 0, top.log()
        finally:
            top.end()
        assert termios.tcgetattr(theirs) == before
    for word in (*names[:2], "share", "interactive", "leash"):
        assert word.encode() in shown


# What is shown ------------------------------------------------------------


FIGURES: dict[str, Any] = {
    "quantum": 40.0,
    "class": 0,
    "target_share": 0.625,
    "share": 1.0,
    "credit": 39.5,
    "window": 1250,
    "buffered": 1250,
    "in_flight": 16,
    "served": 1_234_567,
    "waiting_seconds": 71.23,
    "held": None,
    "throttled_seconds": 0.0,
    "rate": None,
    "burst": None,
    "max_in_flight": None,
    "workers": 12,
    "held_workers": 12,
    "waiting_at_broker": 1_234_567,
    "oldest_seconds": 71.23,
    "empty_in_seconds": 7_123.4,
    "per_second": 1234.5,
}


def row(queue: str = "interactive", **figures: Any) -> dict[str, dict[str, Any]]:
    return {queue: FIGURES | figures}


ROWS = {
    **row(),
    **row(
        "bulk.of.a.very.long.name.indeed", held="leash", throttled_seconds=12.3, rate=10, burst=5
    ),
    **row("reports", held="cap", max_in_flight=16),
    **row("idle", buffered=0, target_share=0.0, share=0.0, held="paused"),
}


def drawn(columns: tuple[str, ...], width: int, workers: dict[str, Any]) -> str:
    return click.unstyle("\n".join(tables(columns, workers, width)))


@pytest.mark.parametrize("width", [80, 110, 140])
def test_sums_fit(width: int) -> None:
    text = drawn(SUMMED, width, {"12 workers": ROWS})
    assert max(map(len, text.splitlines())) <= width
    for word in ("12 workers", "paused", "cap 16", "leash 12.3 s", "1.235M"):
        assert word in text
    some = drawn(SUMMED, width, {"12 workers": row(held="paused", held_workers=3)})
    assert "paused on 3 of 12" in some


@pytest.mark.parametrize("width", [80, 110, 140, 200])
def test_tables_fit(width: int) -> None:
    text = drawn(BY_WORKER, width, {"celery@host": ROWS, "celery@idle": {}})
    assert max(map(len, text.splitlines())) <= width
    for word in ("celery@host", "paused", "cap 16", "leash 12.3 s", "71.2 s", "62.5"):
        assert word in text
    assert "celery@idle: consumes no queue" in text
    assert ("10/s, burst 5" in text) == (width == 200)


def test_higher_classes_come_first() -> None:
    rows = row("a") | row("b", **{"class": 2}) | row("c", **{"class": 1})
    text = drawn(BY_WORKER, 140, {"w": rows})
    assert "class" in text
    assert text.index(" b ") < text.index(" c ") < text.index(" a ")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *[(0, "0"), (0.123456, "0.123"), (40.0, "40"), (12.346, "12.35"), (1234.5, "1,234")],
        *[(99_999, "99,999"), (123_456, "123.5k"), (1_234_567, "1.235M"), (-3.5, "-3.5")],
    ],
)
def test_figures_are_short(value: float, text: str) -> None:
    assert figure(value) == text


@pytest.mark.parametrize("name", ["status", "top", "explain", "set", "pause", "resume"])
def test_help_teaches(name: str) -> None:
    text = CliRunner().invoke(fair, [name, "--help"]).output
    assert f"celery -A shop fair {name}" in text
    assert "Exit status: 0" in text
    for option in ("--destination", "--timeout", "--json"):
        assert option in text


def test_without_an_app() -> None:
    outcome = CliRunner().invoke(fair, ["status"])
    assert outcome.exit_code == 2
    assert "status is about an app and its workers: celery -A app fair status" in outcome.output
