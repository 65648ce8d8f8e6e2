"""Users with just the rights that the documentation names: worker and publisher do their work."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from amqp import AccessRefused
from celery import Celery

from celery_fair import install
from tests.brokers import RabbitMQ, RedisServer, Space
from tests.documentation.commands import ROOT
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker, WorkerProcess

pytestmark = pytest.mark.newest

PAGE = ROOT / "docs" / "production" / "permissions.md"
QUEUES = {"interactive": {"quantum": 10}, "bulk": {"quantum": 1}}
KEYS = {"fair_keys": {"jobs": {}}}
CONF = {"fair_queues": QUEUES, "task_default_queue": "interactive"}


def commands(beginning: str) -> dict[str, list[str]]:
    """The words of the page's commands that begin so, behind the user, by that."""
    page = PAGE.read_text().replace("\\\n", "")
    lines = re.findall(rf"^\$ {beginning} (.*)", page, re.MULTILINE)
    assert len(lines) == 2
    return {user: rest for user, *rest in map(shlex.split, lines)}


@contextmanager
def publisher(url: str, **conf: Any) -> Iterator[Celery]:
    app = Celery("publisher", broker=url, set_as_current=False)
    app.conf.update(CONF, **conf)
    install(app)
    with app:
        yield app


def work(worker: WorkerProcess, url: str, **conf: Any) -> None:
    """Tasks of all queues, one that is due later, and what becomes a dead letter; commands."""
    with publisher(url, **conf) as app:
        sent = [app.send_task("noop", (n,), queue=queue) for n, queue in enumerate(QUEUES)]
        keyed = {"queue": "jobs", "fair_key": "acme"}
        sent += [app.send_task("noop", (0,), **keyed) for _ in range(10 if conf else 0)]
        sent.append(app.send_task("noop", (2,), queue="bulk", countdown=1))
        app.send_task("nosuchtask", queue="bulk")
        worker.records.started.wait_once([each.id for each in sent])
        if "result_backend" in conf:
            assert sent[0].get(timeout=30) is None
    assert worker.inspect("ping") == {"ok": "pong"}
    assert {*worker.control("fair_status")} >= {*QUEUES}
    wait_for(lambda: "Dead-lettered" in worker.log(), 30, worker.log)


def start(start_worker: StartWorker, url: str, **more: Any) -> WorkerProcess:
    """A worker that tells others of itself, as by default."""
    conf = CONF | more
    worker = start_worker(url, pool="threads", concurrency=2, conf=conf, quiet=False, args=["-E"])
    assert isinstance(worker, WorkerProcess)
    return worker


def rabbit_users(rabbitmq: RabbitMQ, space: Space, more: str) -> dict[str, str]:
    given = commands("rabbitmqctl set_permissions -p shop")
    names = {user: f"{user}{os.getpid()}.{space.place}" for user in given}
    for patterns in given.values():
        patterns[:] = [pattern.replace("^(", f"^({more}") for pattern in patterns]
    return {u: rabbitmq.add_user(names[u], space.place, *given[u]) for u in given}


@pytest.mark.parametrize(
    ("more", "conf"),
    [("", {}), (r"jobs|jobs\.fair.*", KEYS)],
    ids=["queues", "keys"],
)
def test_rights_on_rabbitmq(
    rabbitmq: RabbitMQ,
    rabbitmq_space: Space,
    start_worker: StartWorker,
    more: str,
    conf: dict[str, Any],
) -> None:
    assert more in PAGE.read_text()
    urls = rabbit_users(rabbitmq, rabbitmq_space, f"{more}|" if more else "")
    worker = start(start_worker, urls["worker"], **conf)
    work(worker, urls["web"], **conf)
    assert worker.stop() == 0
    wait_equal(lambda: rabbitmq_space.ready().get("dead-letters"), 1)
    refused = [line for line in rabbitmq.log().splitlines() if "refused for user" in line]
    assert [line for line in refused if rabbitmq_space.place in line] == []


def test_who_may_not_publish_is_told_if_he_asks(rabbitmq: RabbitMQ, rabbitmq_space: Space) -> None:
    configure, _, read = commands("rabbitmqctl set_permissions -p shop")["web"]
    name = f"mute{os.getpid()}.{rabbitmq_space.place}"
    url = rabbitmq.add_user(name, rabbitmq_space.place, configure, configure, read)
    with publisher(url) as app:
        app.send_task("noop", (1,), queue="bulk")
    assert rabbitmq_space.ready() == {}
    confirmed = {"broker_transport_options": {"confirm_publish": True}}
    with publisher(url, task_publish_retry=False, **confirmed) as app, pytest.raises(AccessRefused):
        app.send_task("noop", (1,), queue="bulk")


RESULTS = {"task_ignore_result": False}
MORE = ["~celery-task-meta-*", "&celery-task-meta-*", "~jobs*"]


@pytest.mark.parametrize(
    ("more", "conf"), [([], {}), (MORE, KEYS | RESULTS)], ids=["queues", "keys"]
)
def test_rights_on_redis(
    own_redis: RedisServer, start_worker: StartWorker, more: list[str], conf: dict[str, Any]
) -> None:
    for rule in more:
        assert f"`{rule}`" in PAGE.read_text()
    for user, rules in commands("redis-cli ACL SETUSER").items():
        own_redis.client.execute_command("ACL", "SETUSER", user, *rules, *more)
    at = f"127.0.0.1:{own_redis.port}/0"
    of_worker, of_web = ({**conf} for _ in range(2))
    if conf:
        of_worker["result_backend"] = f"redis://worker:secret@{at}"
        of_web["result_backend"] = f"redis://web:secret@{at}"
    worker = start(start_worker, f"redis://worker:secret@{at}", **of_worker)
    work(worker, f"redis://web:secret@{at}", **of_web)
    assert worker.stop() == 0
    assert own_redis.client.acl_log() == []
    assert own_redis.client.llen("dead-letters") == 1


def test_a_worker_that_may_not_be_woken(own_redis: RedisServer, start_worker: StartWorker) -> None:
    """It says so at its start, looks again and again instead, and ends as any other."""
    for user, rules in commands("redis-cli ACL SETUSER").items():
        own_redis.client.execute_command("ACL", "SETUSER", user, *rules, "-client|tracking")
    at = f"127.0.0.1:{own_redis.port}/0"
    worker = start(start_worker, f"redis://worker:secret@{at}")
    work(worker, f"redis://web:secret@{at}")
    assert worker.stop() == 0
    assert "ACL SETUSER worker '+client|tracking'" in worker.log()
    assert "NoPermission" not in worker.log()
