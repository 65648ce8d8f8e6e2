"""No password of a store, ledger or leash is shown: not in a report, a log, or an error."""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import closing
from dataclasses import fields
from typing import Any

import pytest
from celery import Celery
from celery.exceptions import ImproperlyConfigured
from kombu import Connection

from celery_fair.brokers.broker import shown
from celery_fair.groups import store_at
from celery_fair.hidden import SECRETS
from celery_fair.ledger import LedgerUnreachableError, ledger_at
from celery_fair.operate.broker import trouble_with
from celery_fair.redis_client import client_at
from celery_fair.settings import Settings
from tests.brokers import Space
from tests.workers import StartWorker

SECRET = "open-sesame"
SETTINGS = ("fair_ledger", "fair_group_store", "fair_leash_url")


def guarded(url: str) -> str:
    """A Redis whose user needs no password takes any."""
    return url.replace("//", f"//default:{SECRET}@")


def conf_with(url: str) -> dict[str, Any]:
    leashed = {"q": {"rate": "100/s", "scope": "cluster"}}
    return {**dict.fromkeys(SETTINGS, url), "fair_queues": leashed, "fair_ledger_expiry": 77}


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (f"amqp://me:{SECRET}@host/shop", "amqp://me:**@host:5672/shop"),
        (f"amqp://a%40b:{SECRET}@host//", "amqp://a%40b:**@host:5672//"),
        (f"amqp://me:1/{SECRET}@host/0", "amqp://…"),
    ],
)
def test_in_a_brokers_url(url: str, said: str) -> None:
    """A slash that is not encoded ends the host."""
    assert shown(Connection(url)) == said


def test_in_what_a_broker_says_of_a_url() -> None:
    """Digits before a slash that is not encoded are a port; what is after it, a database."""
    with Connection(f"redis://:7/{SECRET}@127.0.0.1/0") as connection:
        trouble = trouble_with(connection)
    assert trouble is not None
    assert SECRET not in trouble
    assert "must be percent-encoded" in trouble


REPORT = f"""
from celery import Celery
from celery_fair import install
app = Celery("shop", broker="memory://")
app.conf.update({conf_with(guarded("redis://127.0.0.1/"))})
install(app)
print(app.bugreport())
"""


def test_in_a_report() -> None:
    """Of a process that has imported nothing of a worker's, as ``celery report``."""
    done = subprocess.run(
        [sys.executable, "-c", REPORT], capture_output=True, text=True, check=True
    )
    assert SECRET not in done.stdout
    assert "fair_ledger_expiry: 77" in done.stdout


def test_in_settings() -> None:
    with Celery("shop", broker="memory://", set_as_current=False) as app:
        app.conf.update(conf_with(guarded("redis://127.0.0.1/")))
        assert SECRET not in repr(Settings.of(app))


def test_all_that_may_have_one_are_hidden() -> None:
    secret = {f"fair_{each.name}" for each in fields(Settings) if not each.repr}
    assert set(SECRETS) == secret


def test_of_a_worker(redis_space: Space, start_worker: StartWorker) -> None:
    conf = conf_with(guarded(redis_space.url)) | {"fair_partitions": {"c": {"partitions": 2}}}
    worker = start_worker(redis_space, conf=conf, queues=["q"], loglevel="DEBUG")
    shown = worker.inspect("conf")
    assert set(SETTINGS) <= shown.keys()
    for what in ("conf", "report", "stats", "active_queues"):
        assert SECRET not in json.dumps(worker.inspect(what))
    worker.stop()
    assert SECRET not in worker.log()


CLIENTS: dict[str, Callable[[str], Any]] = {
    "fair_ledger": lambda url: ledger_at(url, 60),
    "fair_group_store": store_at,
    "fair_leash_url": lambda url: client_at(url, "fair_leash_url"),
}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize(
    "url",
    [
        f"redis://me:{SECRET}/x@h/0",
        f"redis://me:x@{SECRET}:y@h:z",
        f"redis://me:x\u2100{SECRET}@h",
        f"redis://me:1?{SECRET}=x@h/0",
        f"postgresql+psycopg://me:x@{SECRET}@h/shop",
        f"mariadb+pymysql://me:x@y/{SECRET}@h/shop",
        f"postgresql+psycopg://me:x@y:{SECRET}@h/shop",
        f"zookeeper://me:x#{SECRET}@h/groups",
        f"zookeeper://me:{SECRET}/x@h",
        f"nonsense://me:{SECRET}@h",
    ],
)
def test_of_a_url_that_cannot_be_read(setting: str, url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=setting) as refused:
        CLIENTS[setting](url)
    assert SECRET not in "".join(traceback.format_exception(refused.value, chain=True)).replace(
        url, ""
    )


@pytest.mark.parametrize(
    ("setting", "url"),
    [
        *((setting, "redis://127.0.0.1:1/0?foo=1") for setting in SETTINGS),
        *((setting, "mariadb+pymysql://127.0.0.1:1/shop?foo=1") for setting in SETTINGS[:2]),
    ],
)
def test_an_option_that_its_client_does_not_know(setting: str, url: str) -> None:
    """It is refused at once, and not when somebody is asked."""
    with pytest.raises(ImproperlyConfigured, match=f"{setting}: .*'foo'"):
        CLIENTS[setting](url)


def test_what_a_database_says_ends_with_what_it_says() -> None:
    ledger = ledger_at("postgresql+psycopg://127.0.0.1:1/shop", 60)
    with closing(ledger), pytest.raises(LedgerUnreachableError) as refused:
        ledger.claim("w", "m", doubt=False)
    assert "sqlalche.me" not in str(refused.value)


@pytest.mark.parametrize(
    "value", [f"me:x@{SECRET}@h", f"h?password={SECRET}", f"redis://me:{SECRET}@h".encode()]
)
@pytest.mark.parametrize("setting", SETTINGS)
def test_of_what_is_no_url(setting: str, value: Any) -> None:
    with Celery("shop", broker="memory://", set_as_current=False) as app:
        app.conf.update({setting: value})
        with pytest.raises(ImproperlyConfigured, match=setting) as refused:
            Settings.of(app)
        assert SECRET not in str(refused.value)
