"""Whatever a message contains, a fair worker lives, says why it was refused, and goes on."""

from __future__ import annotations

import pytest

from tests.brokers import Space
from tests.integration.depths import left
from tests.integration.malformed import DEADLY, MALFORMED
from tests.integration.survivor import Survivor
from tests.publishing import publish
from tests.waiting import wait_equal
from tests.workers import StartWorker


@pytest.fixture(scope="module")
def survivor(module_space: Space, start_module_worker: StartWorker) -> Survivor:
    return Survivor(start_module_worker, module_space.server.space())


@pytest.mark.parametrize("kind", MALFORMED)
def test_malformed_message(survivor: Survivor, kind: str) -> None:
    survivor.check(MALFORMED[kind])


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
