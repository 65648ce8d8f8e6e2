"""Properties that py-amqp cannot decode are one message's trouble, however it comes in."""

from __future__ import annotations

from typing import Any

import pytest
from kombu import Connection

from tests.brokers import Space
from tests.fast_path import wire
from tests.integration.batch import buried
from tests.integration.depths import left
from tests.publishing import publish
from tests.publishing.amqp_broker import publish_header
from tests.waiting import wait_equal
from tests.workers import StartWorker

WAYS = {
    "pushed, plain": {"fair_fast_path": False},
    "pushed, fast": {},
    "pulled": {"fair_queues": {"a": {"fetch": "pull"}}},
}
LATIN = b"\xe9\xff"
PROPERTIES = {
    "a property": {wire.CONTENT_TYPE: wire.short_string(LATIN)},
    "a header's name": {wire.HEADERS: wire.table([(LATIN, b"V")])},
    "a header's value": {wire.HEADERS: wire.table([(b"x", b"S" + wire.long_string(LATIN))])},
}


@pytest.mark.parametrize("conf", WAYS.values(), ids=WAYS)
def test_undecodable_properties(
    rabbitmq_space: Space, start_worker: StartWorker, conf: dict[str, Any]
) -> None:
    worker = start_worker(rabbitmq_space, app="tests.apps.once", queues=["a"], conf=conf)
    with Connection(rabbitmq_space.url) as connection, connection.channel() as channel:
        for properties in PROPERTIES.values():
            for body in (b"", b'{"task": "noop", "id": "1", "args": [0]}'):
                publish_header(channel, "a", wire.properties(properties), body)
    worker.records.started.wait_once(publish(rabbitmq_space.url, {"a": 3}).all())
    wait_equal(lambda: left(rabbitmq_space, "a"), 0)
    assert worker.running
    assert "Connection to broker lost" not in worker.log()
    assert buried(rabbitmq_space) == {None: ["malformed"] * 2 * len(PROPERTIES)}
