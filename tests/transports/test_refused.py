"""By which transports a fair worker starts, and what it says of the others."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from celery.exceptions import ImproperlyConfigured
from kombu.transport import TRANSPORT_ALIASES

from celery_fair.brokers.broker import refuse_broker
from celery_fair.settings import Settings
from tests.documentation.commands import ROOT
from tests.test_settings_live import settings_of
from tests.workers import StartWorker

PARTITIONS = {"orders": {"partitions": 2}}
TESTED = {"py-amqp", "redis", "memory", "sqs"}
SQS = SimpleNamespace(driver_type="sqs", driver_name="sqs")


def refusal(transport: Any, settings: Settings, *once: str, loop: bool = True) -> str:
    try:
        refuse_broker(SimpleNamespace(transport=transport), settings, once, loop)
    except ImproperlyConfigured as exc:
        return str(exc)
    return ""


@pytest.mark.parametrize(
    ("driver", "name"),
    [("filesystem", "filesystem"), ("sql", "sqlalchemy"), ("amqp", "librabbitmq"), ("x", "x")],
)
def test_untested(driver: str, name: str) -> None:
    transport = SimpleNamespace(driver_type=driver, driver_name=name)
    said = refusal(transport, settings_of())
    assert repr(name) in said
    assert "amqp://" in said
    assert refusal(transport, settings_of(allow_untested_transport=True), "charge") == ""


@pytest.mark.parametrize("alias", sorted(TRANSPORT_ALIASES))
def test_each_of_kombu(alias: str) -> None:
    """Those whose packages are installed here."""
    from kombu.transport import resolve_transport

    try:
        transport = resolve_transport(alias)
    except (ImportError, AttributeError, KeyError, NameError) as exc:
        pytest.skip(f"not installed: {exc!r}")
    assert (refusal(transport, settings_of()) == "") is (transport.driver_name in TESTED)


def test_on_sqs_what_must_not_be_repeated_needs_a_ledger(tmp_path: Path) -> None:
    assert refusal(SQS, settings_of()) == ""
    said = refusal(SQS, settings_of(), "charge")
    assert "non-repeatable tasks (charge) need a ledger" in said
    assert "fair_ledger = " in said
    ledger = settings_of(ledger=f"sqlite:///{tmp_path}/ledger.db")
    assert refusal(SQS, ledger, "charge") == ""


def test_what_else_sqs_is_not_tried_with() -> None:
    assert "no order" in refusal(SQS, settings_of(partitions=PARTITIONS))
    assert "--pool prefork" in refusal(SQS, settings_of(), loop=False)


def test_a_worker_says_so_and_ends(start_worker: StartWorker, tmp_path: Path) -> None:
    worker = start_worker(f"sqla+sqlite:///{tmp_path}/broker.db", wait=False, queues=["a"])
    assert worker.wait() != 0
    assert "fair workers are not tested with kombu's transport 'sqlalchemy'" in worker.log()


FAIR = """
from celery import Celery
from celery_fair import install

app = install(Celery("fair", broker="{}://me:secret@localhost"))
"""


@pytest.mark.parametrize("missing", ["confluentkafka", "redis", "sqs"])
def test_a_worker_without_the_brokers_client(tmp_path: Path, missing: str) -> None:
    """In a sentence, not with whatever kombu comes upon first; and without a password."""
    for client in ("redis", "boto3"):
        (tmp_path / f"{client}.py").write_text(f"raise ImportError('no {client}')")
    said = refused(tmp_path, FAIR.format(missing))
    assert "broker_url: the client library that kombu needs there is not installed" in said


def test_a_worker_whose_brokers_url_cannot_be_read(tmp_path: Path) -> None:
    """Of a password with a slash that is not encoded a part is taken for the port."""
    said = refused(tmp_path, FAIR.replace("{}://me:secret@", "amqp://me:secret/x@"))
    assert "broker_url cannot be read" in said
    assert "must be percent-encoded" in said


def test_a_worker_that_would_consume_its_dead_letters(tmp_path: Path) -> None:
    said = refused(tmp_path, FAIR.format("memory"), "-Q", "celery,dead-letters")
    assert "fair_dead_letters: 'dead-letters' is consumed" in said


def refused(folder: Path, app: str, *options: str) -> str:
    """Return what a worker says that ends at once, in a sentence and without a password."""
    (folder / "fair.py").write_text(app)
    command = [sys.executable, "-m", "celery", "-A", "fair", "worker", "--pool", "solo", *options]
    paths = {"PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
    done = subprocess.run(
        command, env=os.environ | paths, text=True, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 2
    said = done.stdout + done.stderr
    assert "Traceback" not in said
    assert "secret" not in said
    return said


@pytest.mark.parametrize("broker", ["redis", "sqs"])
def test_an_extra_brings_all_that_kombu_needs_there(broker: str) -> None:
    """That is more than the client, and more in each of its releases."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"kombu[{broker}]" in str(project["optional-dependencies"][broker])
