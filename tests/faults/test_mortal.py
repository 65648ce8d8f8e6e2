"""The fault matrix, once: brokers that are killed, or restarted. Apart, since that takes long."""

from __future__ import annotations

import pytest

from tests.faults.matrix import Case
from tests.faults.quick import QUICK, SEED
from tests.faults.scenes import Scenes

pytestmark = pytest.mark.newest

MORTAL = [case for case in QUICK if case.mortal]
LASTING = {"rabbitmq": "quorum", "redis": "keyed"}
"""The queues that have most to keep."""


@pytest.fixture(scope="module", autouse=True)
def aged(scenes: Scenes) -> None:
    """Quorum queues share their node with what is killed before them."""
    for case in MORTAL:
        scenes.of(case).age()


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case, marks=() if case.queue_type == LASTING[case.broker] else pytest.mark.wide
        )
        for case in MORTAL
    ],
    ids=str,
)
def test_fault(scenes: Scenes, case: Case) -> None:
    for task, account in scenes.execute(case, SEED).items():
        print(f"{task}: {account}")
