"""`dead-letters list` and `show`: whatever is there is shown, and stays as it is."""

from __future__ import annotations

import base64
import json
import pickle
import re
import zlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery import Celery
from celery.bin.base import CLIContext
from click.testing import CliRunner
from kombu import Connection

from celery_fair.cli import fair
from celery_fair.operate.text import escaped
from tests.brokers import RabbitMQ, Space
from tests.dead_letters.conftest import NAME, Box
from tests.ports import free_port

MALFORMED: dict[str, dict[str, Any]] = {
    "no headers": {"bare": True},
    "no headers, no body": {"bare": True, "body": b""},
    "binary": {"body": b"\x80\x04\xff\x00", "content_type": "application/x-python-serialize"},
    "wrong types": {
        "task_id": 7,
        "task": ["a"],
        "reason": 1,
        "queue": {"a": 1},
        "exchange": 3,
        "routing_key": None,
        "time": 12,
        "may_have_started": "no",
    },
    "an empty id": {"task_id": ""},
    "no time": {"time": "yesterday"},
    "a time out of range": {"time": "0001-01-01T00:00:00+23:59"},
    "hostile": {"task_id": "a\x1b[2Jb\nc", "task": "\x07\u202e" * 50, "reason": "\r\ud7ff\x00"},
    "deep": {"body": b"[" * 100_000},
    "compressed": {"task_id": "z", "body": b"no zlib", "compression": "application/x-gzip"},
}


@pytest.fixture
def crowded(box: Box) -> Box:
    for letter in MALFORMED.values():
        box.put(**letter)
    return box


def test_whatever_is_there_is_listed_and_shown(crowded: Box) -> None:
    letters = crowded.list()
    assert len(letters) == len(MALFORMED)
    assert len({letter["id"] for letter in letters}) == len(MALFORMED)
    text = crowded.run("list").stdout
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", text)
    assert len(text.splitlines()) == 1 + len(MALFORMED)
    for letter in letters:
        for word in (escaped(letter["id"]), letter["digest"]):
            outcome = crowded.run("show", word)
            assert outcome.exit_code == 0
            assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", outcome.stdout)
            (shown,) = json.loads(crowded.run("show", word, "--json").stdout)
            assert shown["id"] == letter["id"]
    assert crowded.list() == letters


@pytest.mark.either_broker
def test_looking_loses_and_reorders_nothing(box: Box) -> None:
    ids = [f"task-{number}" for number in range(1100)]
    for each in ids:
        box.put(each)
    assert box.ids() == ids
    assert box.run("list", "--limit", "3").stderr == "1097 more; --limit 0 shows all.\n"
    assert box.run("show", "task-5").exit_code == 0
    assert [message.headers["id"] for message in box.get("dead-letters")] == ids


def test_fields(box: Box) -> None:
    box.put("t1", detail="boom")
    (letter,) = box.list()
    assert letter == {
        "id": "t1",
        "digest": letter["digest"],
        "task": "shop.charge",
        "queue": "orders",
        "reason": "malformed",
        "may_have_started": False,
        "time": "2026-05-31T14:00:00+00:00",
        "worker": "celery@host",
        "detail": "boom",
    }
    text = box.run("list").stdout
    assert re.search(
        r"^id +task +queue +reason +may have started +time \(UTC\) +age$", text, re.MULTILINE
    )
    assert re.search(
        r"^t1 +shop.charge +orders +malformed +no +2026-05-31 14:00:00 ", text, re.MULTILINE
    )


def test_filters(box: Box) -> None:
    now = datetime.now(UTC)
    box.put("a", reason="redelivered", queue="bulk", time=(now - timedelta(hours=5)).isoformat())
    box.put("b", task="shop.export", time=(now - timedelta(minutes=5)).isoformat())
    box.put("c", task="shop.export", queue="bulk", time=...)
    for words, ids in {
        (): "abc",
        ("--reason", "redelivered"): "a",
        ("--reason", "redelivered", "--reason", "malformed"): "abc",
        ("--task", "shop.export"): "bc",
        ("--queue", "bulk"): "ac",
        ("--queue", "bulk", "--task", "shop.export"): "c",
        ("--since", "1h"): "b",
        ("--before", "1h"): "a",
        ("--since", "6h", "--before", "60s"): "ab",
        ("--since", (now - timedelta(minutes=6)).isoformat()): "b",
        ("--since", "2999-01-01"): "",
    }.items():
        assert "".join(box.ids(*words)) == ids, words
    assert "No dead letter is like that." in box.run("list", "--task", "x").stdout


def test_none(space: Space) -> None:
    app = Celery("shop", broker=space.url, set_as_current=False)
    obj = CLIContext(app=app, no_color=True, workdir=None)
    outcome = CliRunner().invoke(fair, ["dead-letters", "list"], obj=obj)
    assert (outcome.exit_code, outcome.stdout) == (0, "There are no dead letters.\n")
    outcome = CliRunner().invoke(fair, ["dead-letters", "show", "x"], obj=obj)
    assert outcome.exit_code == 1
    assert "there is no dead letter 'x'; dead-letters list shows their ids" in outcome.stderr


def test_another_name_and_key_prefix(redis_space: Space) -> None:
    conf = {"broker_transport_options": {"global_keyprefix": "shop:"}}
    box = Box(redis_space.url, **conf)
    with box.connection:
        box.put("t1")
        assert box.ids() == ["t1"]
        assert box.order("replay", "t1")["replayed"] == ["t1"]
        assert redis_space.ready() == {"shop:orders": 1}
        (message,) = box.get("orders")
        assert message.headers["id"] == "t1"
    box.app.conf.fair_dead_letters = "elsewhere"
    assert box.ids() == []


def test_show_text(box: Box) -> None:
    box.put("t1", b'[[1, "\\u001b"], {"a": 2}, {}]', properties={"priority": 3})
    (letter,) = json.loads(box.run("show", "t1").stdout)
    assert letter["id"] == "t1"
    assert letter["headers"]["x-fair-may-have-started"] is False
    assert letter["properties"]["priority"] == 3
    assert (letter["body"]["args"], letter["body"]["kwargs"]) == ([1, "\x1b"], {"a": 2})


@pytest.mark.parametrize(
    ("body", "limit", "shown"),
    [
        (b"[[1], {}, {}]", "2000", {"args": [1], "kwargs": {}, "cut": False}),
        (b"[[1], {}, {}]", "5", {"text": "[[1],", "cut": True}),
        (b"[[1], {}, {}]", "0", {"args": [1]}),
        (b'{"args": [1], "kwargs": {"a": 1}}', "0", {"args": [1], "kwargs": {"a": 1}}),
        (b"plain", "0", {"text": "plain", "bytes": 5}),
        (pickle.dumps(1), "4", {"base64": base64.b64encode(pickle.dumps(1)[:4]).decode()}),
    ],
)
def test_show_body(redis_space: Space, body: bytes, limit: str, shown: dict[str, Any]) -> None:
    box = Box(redis_space.url)
    with box.connection:
        box.put("t1", body)
        (letter,) = json.loads(box.run("show", "t1", "--json", "--bytes", limit).stdout)
    assert letter["body"].items() >= shown.items()
    assert ("args" in letter["body"]) == ("args" in shown)


def test_what_json_has_no_number_for_is_null(redis_space: Space) -> None:
    """Python writes it, and other readers of JSON refuse all of it then."""
    box = Box(redis_space.url)
    with box.connection:
        box.put("t1", b"[[NaN, 1], {}, {}]", properties={"priority": 3})
        said = box.run("show", "t1", "--json").stdout

    def refused(word: str) -> None:
        raise AssertionError(word)

    (letter,) = json.loads(said, parse_constant=refused)
    assert letter["body"]["args"] == [None, 1]


def test_show_compressed(box: Box) -> None:
    headers = {"compression": "application/x-gzip", "id": "t1"}
    body = zlib.compress(b"[[1], {}, {}]")
    box.connection.Producer().publish(
        body, routing_key="dead-letters", headers=headers, content_type="application/json"
    )
    (letter,) = json.loads(box.run("show", "t1", "--json").stdout)
    assert letter["body"]["args"] == [1]


@pytest.mark.parametrize("scheme", ["amqp", "redis"])
def test_no_broker(scheme: str) -> None:
    url = f"{scheme}://ann:secret@127.0.0.1:{free_port()}/0"
    app = Celery("nobody", broker=url, set_as_current=False)
    obj = CLIContext(app=app, no_color=True, workdir=None)
    for words in (["list"], ["replay", "x"], ["purge", "x", "--yes"]):
        outcome = CliRunner().invoke(fair, ["dead-letters", *words], obj=obj)
        assert outcome.exit_code == 1
        assert f"no connection to the broker {scheme}://ann:**@127.0.0.1" in outcome.stderr
        assert "secret" not in outcome.output


def test_without_an_app() -> None:
    outcome = CliRunner().invoke(fair, ["dead-letters", "list"])
    assert outcome.exit_code == 2
    assert "celery -A app fair dead-letters list" in outcome.output


def test_wrong_time() -> None:
    outcome = CliRunner().invoke(fair, ["dead-letters", "list", "--since", "soon"])
    assert outcome.exit_code == 2
    assert "'soon' is neither an age, such as 90s" in outcome.stderr


@pytest.mark.parametrize("name", ["list", "show", "replay", "purge"])
def test_help_teaches(name: str) -> None:
    text = CliRunner().invoke(fair, ["dead-letters", name, "--help"]).output
    assert f"celery -A shop fair dead-letters {name}" in text
    assert "Exit status: 0" in text
    assert "--json" in text


def test_where_queues_are_quorum_queues_by_default(rabbitmq: RabbitMQ) -> None:
    """Each look would count as a delivery, of which there may be so many, then it would be gone."""
    limit = f'<<"limit">>, <<"{NAME}">>, [{{<<"delivery-limit">>, 2}}], 0, <<"queues">>'
    for call in (
        'vhost:put_vhost(<<"quorums">>, <<"">>, <<"">>, <<"quorum">>, undefined, <<"guest">>).',
        f'policy:set(<<"quorums">>, {limit}, <<"tests">>).',
    ):
        rabbitmq.control("eval", f"rabbit_{call}")
    box = Box(rabbitmq.url("quorums"))
    with box.connection:
        box.put("a")
        for _ in range(5):
            assert box.ids() == ["a"]
    rabbitmq.delete_vhost("quorums")


def test_a_queue_that_was_declared_without_a_type(rabbitmq_space: Space) -> None:
    """It is the same to RabbitMQ."""
    with Connection(rabbitmq_space.url) as connection:
        connection.default_channel.queue_declare(NAME, durable=True, auto_delete=False)
    Box(rabbitmq_space.url).connection.release()
