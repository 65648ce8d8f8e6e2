"""A worker with eight threads on each broker, for the tests that operate on a live one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.brokers import Space
from tests.conftest import KINDS, shared_server
from tests.integration.conftest import gate, module_space, start_module_worker
from tests.workers import WorkerProcess, starting_workers

__all__ = ["gate", "module_space", "start_module_worker"]

THREADS = 8
CONF = {
    "fair_cost": "tests.live.costs.announced",
    "fair_queues": {
        "capped": {"max_in_flight": 2},
        "leashed": {"rate": "36/h", "burst": 1},
        "large": {"quantum": 1},
        "small": {"quantum": 100},
        "a": {"quantum": 1},
        "b": {"quantum": 1},
    }
    | {name: {} for name in ("rest", "throttled", "windowed", "paused", "steady")},
}

Ask = Callable[..., Any]


@pytest.fixture(scope="package", params=KINDS)
def live_space(request: pytest.FixtureRequest) -> Space:
    """A place on each broker in turn, for all tests that share the worker."""
    return shared_server(request).space()


@pytest.fixture(scope="package")
def worker(live_space: Space, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    """The worker; a test leaves its queues empty, and their options as they were."""
    with starting_workers(tmp_path_factory.mktemp("worker")) as start:
        yield start(live_space, pool="threads", concurrency=THREADS, conf=CONF)


@pytest.fixture
def ask(worker: WorkerProcess) -> Ask:
    """Sends a command about a queue to the worker: `ask("set", "a", quantum=3)`."""

    def asked(command: str, queue: str | None = None, **options: Any) -> Any:
        arguments: dict[str, Any] = {} if queue is None else {"queue": queue}
        if command == "set":
            arguments["options"] = options
        return worker.control(f"fair_{command}", **arguments)

    return asked
