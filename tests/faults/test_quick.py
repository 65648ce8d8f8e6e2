"""The fault matrix, once: a part of every cell that can be had in little time.

`python -m tests.faults` repeats all of it, at random moments.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache

import pytest

from tests.brokers import RabbitMQ, RedisServer
from tests.brokers.space import Server
from tests.conftest import running
from tests.faults.matrix import FAULTS, TASKS, Case, cases
from tests.faults.scenes import Scenes

pytestmark = pytest.mark.newest

SEED = 1
PREFORK = {"worker kill -9", "child kill -9", "SIGTERM"}
QUORUM = {
    "cut",
    "cut before ack",
    "cut after ack",
    "cut after publish",
    "cut before confirm",
    "black hole, then cut",
    "SIGTERM, then cut",
}


def is_quick(case: Case) -> bool:
    """All faults; on both kinds of queue where they may differ."""
    if case.tasks != TASKS:
        return False
    if case.pool == "prefork":
        return case.fault in PREFORK and case.queue_type == "quorum"
    if case.queue_type == "quorum":
        return case.fault in QUORUM or case.mortal
    return case.fault != "broker restart" or case.broker == "redis"


QUICK = sorted(filter(is_quick, cases()), key=lambda case: (case.mortal, case.label, case.pool))


@pytest.fixture(scope="module")
def scenes(rabbitmq: RabbitMQ, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenes]:
    """A worker of each kind for all cases, and brokers that may be killed."""
    with ExitStack() as stack:

        @cache
        def mortal(kind: str) -> Server:
            new = RabbitMQ() if kind == "rabbitmq" else RedisServer(durable=True)
            started = running(new)
            stack.callback(started.close)
            return next(started)

        def server(case: Case) -> Server:
            immortal = case.broker == "rabbitmq" and not case.mortal
            return rabbitmq if immortal else mortal(case.broker)

        scenes = Scenes(server, tmp_path_factory.mktemp("faults"))
        stack.callback(scenes.end)
        for case in QUICK:
            if case.mortal and case.queue_type == "quorum":
                scenes.of(case)  # its queues have to reach a certain age
        yield scenes


def test_the_quick_cases_are_all_faults() -> None:
    assert {case.fault for case in QUICK} == set(FAULTS)


@pytest.mark.parametrize("case", QUICK, ids=str)
def test_fault(scenes: Scenes, case: Case) -> None:
    for task, account in scenes.execute(case, SEED).items():
        print(f"{task}: {account}")
