"""Whatever a message contains, a fair worker lives, says why it was refused, and goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.brokers import RedisServer, Space
from tests.integration.depths import left
from tests.integration.malformed import BODY, DEADLY, GARBAGE, MALFORMED, Garbage, Malformed
from tests.publishing import publish
from tests.waiting import wait_equal, wait_for
from tests.workers import StartWorker, WorkerProcess, starting_workers

POOLS = ["solo", "prefork"]


class Survivor:
    """A worker that is started anew should a message end it, so that each test tells its own."""

    def __init__(self, start: StartWorker, space: Space, pool: str) -> None:
        self._start, self._pool, self.space = start, pool, space
        self._worker: WorkerProcess | None = None

    @property
    def worker(self) -> WorkerProcess:
        if self._worker is None or not self._worker.running:
            self._worker = self._start(
                self.space, app="tests.apps.once", pool=self._pool, queues=["a"]
            )
        return self._worker

    def check(self, message: Malformed | Garbage) -> None:
        """The message, between two good ones, harms neither and is gone."""
        worker = self.worker
        before = len(worker.log())
        buried = left(self.space, "dead-letters")
        first = publish(self.space.url, {"a": 1})
        message.publish(self.space, "a")
        second = publish(self.space.url, {"a": 1})

        worker.records.started.wait_once([*first.all(), *second.all()], timeout=10)
        wait_equal(lambda: left(self.space, "a"), 0, timeout=10)
        assert worker.running
        assert "Connection to broker lost" not in worker.log()
        if not message.harmless:
            wait_equal(lambda: len(worker.log()) > before, True, timeout=5)
        if not message.harmless and not message.fails:
            wait_equal(lambda: left(self.space, "dead-letters"), buried + 1, timeout=5)


@pytest.fixture(scope="module", params=POOLS)
def survivor(
    request: pytest.FixtureRequest, module_space: Space, start_module_worker: StartWorker
) -> Survivor:
    return Survivor(start_module_worker, module_space.server.space(), request.param)


@pytest.mark.parametrize("kind", MALFORMED)
def test_malformed_message(survivor: Survivor, kind: str) -> None:
    survivor.check(MALFORMED[kind])


@pytest.fixture(scope="module")
def redis_survivor(
    redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Survivor]:
    with starting_workers(tmp_path_factory.mktemp("workers")) as start:
        yield Survivor(start, redis_server.space(), "solo")


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_on_redis(redis_survivor: Survivor, kind: str) -> None:
    redis_survivor.check(GARBAGE[kind])


@pytest.mark.parametrize("kind", list(DEADLY)[:3])
def test_the_same_message_ends_a_vanilla_worker(
    rabbitmq_space: Space, start_worker: StartWorker, kind: str
) -> None:
    publish(rabbitmq_space.url, {"a": 0})
    DEADLY[kind].publish(rabbitmq_space, "a")
    vanilla = start_worker(rabbitmq_space, wait=False, fair=False, queues=["a"])
    assert vanilla.wait() != 0
    wait_equal(lambda: left(rabbitmq_space, "a"), 1)

    fair = start_worker(rabbitmq_space, queues=["a"])
    fair.records.started.wait_once(publish(rabbitmq_space.url, {"a": 1}).all())
    wait_equal(lambda: left(rabbitmq_space, "a"), 0)


TEXT = st.text(max_size=20)
SCALARS = st.none() | st.booleans() | st.integers(-(2**31), 2**31) | st.floats() | TEXT
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3)
)
NAMES = ["task", "id", "lang", "eta", "expires", "timelimit", "retries", "group", "root_id"]
NAMES += ["stamps", "stamped_headers", "replaced_task_nesting", "compression", "redelivered"]
NAMES += ["ignore_result", "parent_id", "argsrepr", "shadow", "x-fair-strict", "x-fair-published"]
MESSAGES = st.builds(
    Malformed,
    headers=st.dictionaries(st.sampled_from(NAMES) | TEXT, VALUES, max_size=4),
    body=st.binary(max_size=40) | (VALUES.map(json.dumps) | st.just(BODY)).map(str.encode),
    content_type=st.sampled_from(["application/json", "application/x-yaml", "text/plain", "?"]),
    content_encoding=st.sampled_from(["utf-8", "binary", "ascii", "x-unheard-of"]),
    bare=st.booleans(),
)


@pytest.fixture(scope="module")
def hardy(module_space: Space, start_module_worker: StartWorker) -> Survivor:
    return Survivor(start_module_worker, module_space.server.space(), "solo")


@settings(max_examples=150, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(message=MESSAGES, once=st.booleans())
def test_any_message(hardy: Survivor, message: Malformed, once: bool) -> None:
    """The next good one runs, and of the other nothing is left behind."""
    worker = hardy.worker
    if once and "task" not in message.headers:
        message.headers = {**message.headers, "task": "before"}
    message.publish(hardy.space, "a")
    good = publish(hardy.space.url, {"a": 1}).all()

    worker.records.started.wait_once(good, timeout=10)
    wait_for(lambda: left(hardy.space, "a") == 0, 10, worker.log)
    assert worker.running, worker.log()
    assert "Connection to broker lost" not in worker.log()
