"""Whose a message is, by what its publisher said."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery, chain, group

from celery_fair import install
from celery_fair.dead_letters.letter import Letter
from celery_fair.headers import FAIR_KEY, KEY
from tests.brokers import Space
from tests.keys.tenants import KEYED, QUEUE, left
from tests.waiting import wait_equal
from tests.workers import StartWorker


def by_first(task: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return args[0] if args else None


@pytest.fixture
def app() -> Iterator[Celery]:
    with Celery("publisher", broker="memory://", set_as_current=False) as app:
        app.conf.fair_keys = {QUEUE: {"key": by_first}}
        app.conf.task_default_queue = QUEUE
        app.conf.task_ignore_result = True
        yield install(app)


def taken(app: Celery, queue: str = QUEUE) -> list[Any]:
    """Take all messages out of a queue; return their keys."""
    keys = []
    with app.connection() as connection:
        channel = connection.default_channel
        app.amqp.queues[queue](channel).declare()
        while (message := channel.basic_get(queue, no_ack=True)) is not None:
            keys.append(message.headers.get("x-fair-key"))
    return keys


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({}, "argument"),
        ({"headers": {"x-fair-key": "header"}}, "header"),
        ({"headers": {"other": 1}}, "argument"),
        ({"fair_key": "option", "headers": {"x-fair-key": "header"}}, "option"),
        ({"fair_key": 12}, "12"),
        ({"fair_key": ("acme", "a/b")}, "acme/a%2Fb"),
    ],
)
def test_what_is_found_first(app: Celery, options: dict[str, Any], key: str) -> None:
    app.send_task("t", ["argument"], **options)
    assert taken(app) == [key]


@pytest.mark.parametrize("bad", ["", "x" * 300, b"\xff", 1.5, [], {}, ("a", ""), True])
def test_an_option_that_is_no_key(app: Celery, bad: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="t: fair_key: a key"):
        app.send_task("t", ["argument"], fair_key=bad)
    assert taken(app) == []


def test_a_tasks_own(app: Celery, caplog: pytest.LogCaptureFixture) -> None:
    @app.task(name="owned", shared=False, fair_key=lambda customer, **_: customer)
    def owned(customer: Any, **_: Any) -> None:
        """Each customer's."""

    owned.delay("acme", row=1)
    owned.apply_async(("acme",), fair_key="other")
    owned.delay(None)
    owned.delay(1.5)  # no key: the queue's function has the same; then nobody's
    assert taken(app) == ["acme", "other", None, None]
    assert "fair_key of owned failed" in caplog.text
    assert "fair_keys['jobs']['key'] failed" in caplog.text


def test_a_function_that_fails_loses_no_message(
    app: Celery, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(name="owned", shared=False, fair_key=lambda customer: 1 / 0)
    def owned(customer: Any) -> None:
        """Nobody can say whose."""

    owned.delay("acme")
    assert taken(app) == ["acme"]  # the queue's function can
    assert "ZeroDivisionError" in caplog.text


def test_other_queues_have_the_header_too(app: Celery) -> None:
    app.send_task("t", ["argument"], queue="other", fair_key="acme")
    app.send_task("t", ["argument"], queue="other")
    assert taken(app, "other") == ["acme", None]


def test_a_canvas(app: Celery) -> None:
    sent = app.signature("t", ["a"], options={"queue": QUEUE, "fair_key": "x"})
    group(sent, app.signature("t", ["b"])).apply_async()
    assert taken(app) == ["x", "b"]


def test_a_letter_that_is_replayed_is_its_tenants() -> None:
    headers = {"id": "x", FAIR_KEY: "acme", KEY: "p", "x-fair-reason": "it was delivered before"}
    replayed = Letter(headers, {}, b"", None).replayed_headers()
    assert {FAIR_KEY: "acme", KEY: "p"}.items() <= replayed.items()
    assert "x-fair-reason" not in replayed


HEIRS = """
from celery_fair import install
from celery_fair.dead_letters.letter import Letter
from celery_fair.headers import FAIR_KEY, KEY
from tests.apps.shares import *

install(app)


@app.task(bind=True, name="parent")
def parent(self, seq, how):
    start(self, seq)
    if how == "retry" and not self.request.retries:
        raise self.retry(countdown=0)
    if how == "child":
        app.send_task("heir", [seq], queue="jobs")
    if how == "replace" and "replaced_task_nesting" not in self.request.headers:
        raise self.replace(app.tasks["heir"].s(seq).set(queue="jobs"))


@app.task(bind=True, name="heir")
def heir(self, seq):
    start(self, seq)
    finished(self.request.get("x-fair-key") or "nobody", self.request.id, seq)
"""


@pytest.mark.parametrize("how", ["child", "replace"])
@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_what_a_task_publishes_is_its_tenants(
    redis_space: Space, start_worker: StartWorker, how: str, pool: str
) -> None:
    worker = start_worker(redis_space, app=HEIRS, pool=pool, queues=[QUEUE], conf=KEYED)
    worker.client.send_task("parent", [1, how], queue=QUEUE, headers={"x-fair-key": "acme/7"})
    (finish,) = worker.records.finished.wait(1)
    assert finish.queue == "acme/7"


def test_a_retry_and_a_chain_keep_their_key(redis_space: Space, start_worker: StartWorker) -> None:
    worker = start_worker(redis_space, app=HEIRS, queues=[QUEUE], conf=KEYED)
    headers = {"x-fair-key": "acme"}
    first = worker.client.signature(
        "parent", [1, "retry"], immutable=True, queue=QUEUE, headers=headers
    )
    chain(first, worker.client.signature("heir", [2], immutable=True, queue=QUEUE)).apply_async()
    (finish,) = worker.records.finished.wait(1)
    assert finish.queue == "acme"
    assert len(worker.records.started.wait(3)) == 3
    wait_equal(lambda: left(redis_space), 0)
