"""As `test_malformed`, where another process has to do with the message."""

from __future__ import annotations

import pytest

from tests.brokers import Space
from tests.integration.malformed import MALFORMED
from tests.integration.survivor import Survivor
from tests.workers import StartWorker

pytestmark = pytest.mark.newest


@pytest.fixture(scope="module")
def survivor(module_space: Space, start_module_worker: StartWorker) -> Survivor:
    return Survivor(start_module_worker, module_space.server.space(), pool="prefork")


@pytest.mark.parametrize("kind", MALFORMED)
def test_malformed_message(survivor: Survivor, kind: str) -> None:
    survivor.check(MALFORMED[kind])
