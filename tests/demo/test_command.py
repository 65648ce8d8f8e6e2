"""The command's options, refusals and exit statuses; nothing here starts a worker."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from click.testing import CliRunner
from click.testing import Result as Outcome

from celery_fair.cli import fair
from celery_fair.cli.demo import demonstration
from celery_fair.cli.demo.broker import Broker, DemoError
from celery_fair.cli.demo.scenario import Run
from tests.demo.demonstration import waiting
from tests.ports import free_port


def invoke(*options: str) -> Outcome:
    return CliRunner().invoke(fair, ["demo", *options])


def results(monkeypatch: pytest.MonkeyPatch, *outcomes: Run | BaseException) -> None:
    """Let runs come to these outcomes, one after the other."""
    coming = iter(outcomes)

    def run(*_: Any) -> Run:
        outcome = next(coming)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    monkeypatch.setattr(demonstration, "run", run)


# Refusals -----------------------------------------------------------------

REFUSED = {
    "no URL": (["--broker", "localhost"], "--broker 'localhost' is no URL"),
    "unknown scheme": (["--broker", "kafka://localhost"], "use memory://, amqp://"),
    "no seconds": (["--seconds", "0"], "0.0 is not in the range"),
    "seconds that are no number": (["--seconds", "nan"], "'nan' is no finite number"),
    "endless seconds": (["--seconds", "inf"], "inf is not in the range"),
    "no target": (["--target", "soon"], "a target is written like '95%<0.5s'"),
    "unknown pool": (["--pool", "party"], "'party' is not one of 'threads', 'prefork'"),
    "no concurrency": (["--pool", "threads", "--concurrency", "0"], "0 is not in the range"),
}


@pytest.mark.parametrize(("options", "message"), REFUSED.values(), ids=REFUSED)
def test_refusals_name_the_value_and_the_way_out(options: list[str], message: str) -> None:
    outcome = invoke(*options)
    assert outcome.exit_code == 2
    assert message in outcome.output


@pytest.mark.parametrize("scheme", ["amqp", "redis"])
def test_unreachable_broker(scheme: str) -> None:
    outcome = invoke("--broker", f"{scheme}://ann:secret@127.0.0.1:{free_port()}/0")
    assert outcome.exit_code == 2
    assert f"no connection to the broker {scheme}://ann:**@127.0.0.1" in outcome.output
    assert "start it, or correct" in outcome.output
    assert "secret" not in outcome.output


MALFORMED = {
    "hash": "amqp://user:s3cr#et@127.0.0.1:1//",
    "slash": "amqp://user:s3cr/et@127.0.0.1:1//",
    "question mark": "redis://user:s3cr?et@127.0.0.1:1/0",
    "bracket": "amqp://user:s3cr[et@127.0.0.1:1//",
    "semicolon": "amqp://user:12;s3cr@127.0.0.1:1//",
    "a port's digits": "amqp://user:12345/s3cr@127.0.0.1:1//",
    "high port": "amqp://user:s3cr@127.0.0.1:99999//",
    "no port": "redis://user:s3cr@127.0.0.1:notaport/0",
    "password behind": "redis://127.0.0.1:1/0?password=s3cr",
    "no such option": "redis://127.0.0.1:1/0?ssl_cert_reqs=s3cr",
}


@pytest.mark.parametrize("url", MALFORMED.values(), ids=MALFORMED)
def test_malformed_broker_keeps_its_secret(url: str) -> None:
    outcome = invoke("--broker", url)
    assert outcome.exit_code == 2, outcome.output
    assert "must be percent-encoded" in outcome.output
    for part in ("s3cr", "12345", "et@", "127.0.0.1"):
        assert part not in outcome.output


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("ampq://user:s3cret@host/v", "--broker 'ampq://…' is no URL"),
        ("user:s3cret@host", "--broker '***' is no URL"),
        ("user:s3cret://host", "--broker '***' is no URL"),
    ],
)
def test_unknown_broker_keeps_its_secret(url: str, shown: str) -> None:
    outcome = invoke("--broker", url)
    assert outcome.exit_code == 2
    assert shown in outcome.output
    assert "s3cret" not in outcome.output


def test_scheme_in_capitals_is_the_same() -> None:
    broker = Broker("MEMORY://")
    assert (broker.url, broker.in_memory, str(broker)) == ("memory://", True, "memory://")
    assert Broker("AMQP://host/Vhost").url == "amqp://host/Vhost"


def test_missing_client_of_redis() -> None:
    code = (
        "import sys; sys.modules['redis'] = None; sys.argv[1:] = ['demo', '--broker',"
        " 'redis://:s3cret@127.0.0.1:1/0']; import runpy; runpy.run_module('celery_fair',"
        " run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "pip install 'celery-fair[redis]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert "s3cret" not in done.stderr


# Exit statuses ------------------------------------------------------------


@pytest.mark.parametrize(("waits", "code"), [([0.1, 0.2], 0), ([0.6, 0.7], 1)])
def test_shorter_waits_are_zero(
    monkeypatch: pytest.MonkeyPatch, waits: list[float], code: int
) -> None:
    results(monkeypatch, waiting([0.5, 0.6], fair=False), waiting(waits))
    outcome = invoke("--json")
    assert outcome.exit_code == code, outcome.output
    assert json.loads(outcome.stdout)["shorter"] is (code == 0)


def test_no_result_is_two(monkeypatch: pytest.MonkeyPatch) -> None:
    results(monkeypatch, DemoError("the worker ended early"))
    outcome = invoke()
    assert outcome.exit_code == 2
    assert "Error: the worker ended early" in outcome.output


def test_interrupted_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    results(monkeypatch, KeyboardInterrupt())
    outcome = invoke()
    assert outcome.exit_code == 130
    assert "Interrupted" in outcome.stderr


# The group ----------------------------------------------------------------


def test_help_teaches() -> None:
    assert "demo" in CliRunner().invoke(fair, ["--help"]).output
    text = invoke("--help").output
    assert "Examples:" in text
    assert "Exit status: 0" in text


def test_unknown_command() -> None:
    outcome = CliRunner().invoke(fair, ["dome"])
    assert outcome.exit_code == 2
    assert "Did you mean one of these?\n" in outcome.output
    assert "\n    demo\n" in outcome.output


def test_every_command_of_celery_loads_little() -> None:
    heavy = "{'celery', 'kombu', 'celery_fair.worker', 'celery_fair.cli.demo'}"
    code = f"import sys, celery_fair.cli; print(*{heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_python_m_celery_fair() -> None:
    command = [sys.executable, "-m", "celery_fair", "demo", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: python -m celery_fair demo")
