"""Workers that the tests of a module share, and a gate that holds tasks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.brokers import Space
from tests.conftest import KINDS, shared_server
from tests.integration.gate import Gate
from tests.workers import StartWorker, starting_workers


@pytest.fixture(scope="module", params=KINDS)
def module_space(request: pytest.FixtureRequest) -> Space:
    """A place on each broker in turn, for all tests of a module."""
    return shared_server(request).space()


@pytest.fixture(scope="module")
def start_module_worker(
    module_space: Space, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StartWorker]:
    """As `start_worker`, for workers that live as long as the module's tests on one broker."""
    with starting_workers(tmp_path_factory.mktemp("workers")) as start:
        yield start


@pytest.fixture
def gate() -> Iterator[Gate]:
    """Holds the tasks "hold" that are given it; open at the test's end at the latest."""
    gate = Gate()
    yield gate
    gate.open()
