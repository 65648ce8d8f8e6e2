"""Whatever a message contains, a fair worker lives, says why it was refused, and goes on."""

from __future__ import annotations

import pytest

from tests.brokers import Space
from tests.integration.batch import Outcome, outcomes_in_time
from tests.integration.depths import left
from tests.integration.malformed import DEADLY, MALFORMED, Malformed
from tests.publishing import publish
from tests.waiting import wait_equal
from tests.workers import StartWorker

WITHIN = 1.0
"""Seconds in which a worker is through with a malformed message."""


@pytest.fixture(scope="module", params=["solo", pytest.param("prefork", marks=pytest.mark.newest)])
def of_kinds(
    request: pytest.FixtureRequest, module_space: Space, start_module_worker: StartWorker
) -> dict[str, Outcome]:
    space = module_space.server.space()
    worker = start_module_worker(space, app="tests.apps.once", pool=request.param, queues=["a"])
    return outcomes_in_time(worker, space, MALFORMED, WITHIN)


@pytest.mark.parametrize("kind", MALFORMED)
def test_malformed_message(of_kinds: dict[str, Outcome], kind: str) -> None:
    """The good message behind it starts, and it is a dead letter, with the reason."""
    message, outcome = MALFORMED[kind], of_kinds[kind]
    assert outcome.after < WITHIN
    assert outcome.reasons == ([] if message.harmless or message.fails else [message.reason])


def test_there_are_sixty_kinds_at_least() -> None:
    buried = [m for m in MALFORMED.values() if not m.harmless and not m.fails]
    assert len(buried) >= 60


@pytest.mark.wide
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


def test_failure_that_celery_cannot_note(module_space: Space, start_worker: StartWorker) -> None:
    """Threads get their slots back."""
    space = module_space.server.space()
    worker = start_worker(space, app="tests.apps.once", pool="threads", queues=["a"])
    for task in ("noop", "before", "after"):
        Malformed({"task": task}, body='[[], {}, {"chain": ["x"]}]').publish(space, "a")
    worker.records.started.wait_once(publish(space.url, {"a": 3}).all())
    wait_equal(lambda: left(space, "a"), 0)
