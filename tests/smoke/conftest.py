"""pytest-celery's fixtures, for this folder only.

Its plugin is not registered, because fixtures of its shadow Celery's own of
the same names everywhere. Each body runs on a local process of every kind,
and where a Docker engine answers, on containers too.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import celery
import docker
import pytest
from pytest_celery import *  # noqa: F403 - fixtures, which pytest finds by name
from pytest_celery import (
    ALL_CELERY_BROKERS,
    DEFAULT_WORKER_CONTAINER_TIMEOUT,
    DEFAULT_WORKER_VOLUME,
    CeleryTestBroker,
    CeleryTestWorker,
    RabbitMQTestBroker,
    RedisTestBackend,
    RedisTestBroker,
)
from pytest_docker_tools import build, container, fxtr

from tests.brokers import RabbitMQ, RedisServer, Space
from tests.conftest import running
from tests.processes import ROOT
from tests.smoke import tasks, worker_app
from tests.smoke.local import LocalBroker, LocalWorker
from tests.smoke.setup import SmokeSetup, SmokeWorkerContainer


@cache
def docker_answers() -> bool:
    try:
        client = docker.from_env(timeout=2)
        return bool(client.ping())
    except docker.errors.DockerException:
        return False


RUNTIMES = ["local", "containers"] if docker_answers() else ["local"]


@pytest.fixture(params=RUNTIMES, autouse=True)
def runtime(request: pytest.FixtureRequest) -> str:
    """Autouse, because pytest-celery asks for the nodes by name, at run time."""
    return str(request.param)


# Brokers and backend --------------------------------------------------------


@pytest.fixture(scope="session")
def rabbitmq_for_messages(hurt_rabbitmq: RabbitMQ) -> RabbitMQ:
    """One of these tests restarts it."""
    return hurt_rabbitmq


@pytest.fixture(scope="session")
def redis_for_messages() -> Iterator[RedisServer]:
    """Apart from the one for results, as containers would be."""
    yield from running(RedisServer(durable=True))


@pytest.fixture(params=sorted(ALL_CELERY_BROKERS))
def celery_broker(request: pytest.FixtureRequest) -> CeleryTestBroker:
    """In a fixed order: pytest-celery's set of names differs between processes."""
    broker: CeleryTestBroker = request.getfixturevalue(request.param)
    return broker


@pytest.fixture
def celery_rabbitmq_broker(
    request: pytest.FixtureRequest, runtime: str
) -> Iterator[RabbitMQTestBroker]:
    if runtime == "containers":
        yield RabbitMQTestBroker(request.getfixturevalue("default_rabbitmq_broker"))
    else:
        server: RabbitMQ = request.getfixturevalue("rabbitmq_for_messages")
        yield RabbitMQTestBroker(LocalBroker(server.space()))


@pytest.fixture
def celery_redis_broker(request: pytest.FixtureRequest, runtime: str) -> Iterator[RedisTestBroker]:
    if runtime == "containers":
        yield RedisTestBroker(request.getfixturevalue("default_redis_broker"))
    else:
        server: RedisServer = request.getfixturevalue("redis_for_messages")
        yield RedisTestBroker(LocalBroker(server.space()))


@pytest.fixture
def celery_redis_backend(
    request: pytest.FixtureRequest, runtime: str
) -> Iterator[RedisTestBackend]:
    if runtime == "containers":
        backend = RedisTestBackend(request.getfixturevalue("default_redis_backend"))
    else:
        space: Space = request.getfixturevalue("redis_space")
        backend = RedisTestBackend(LocalBroker(space))
    yield backend
    backend.teardown()


# Worker -----------------------------------------------------------------------


@pytest.fixture
def celery_setup_cls() -> type[SmokeSetup]:
    return SmokeSetup


@pytest.fixture
def default_worker_container_cls() -> type[SmokeWorkerContainer]:
    return SmokeWorkerContainer


@pytest.fixture
def default_worker_app_module() -> ModuleType:
    return worker_app


@pytest.fixture
def default_worker_tasks() -> set[ModuleType]:
    return {tasks}


@pytest.fixture
def celery_setup_worker(
    request: pytest.FixtureRequest, runtime: str, tmp_path: Path, default_worker_app: Any
) -> Iterator[CeleryTestWorker]:
    if runtime == "containers":
        made = request.getfixturevalue("smoke_worker_container")
    else:
        made = LocalWorker(
            tmp_path,
            request.getfixturevalue("default_worker_initial_content"),
            request.getfixturevalue("default_worker_command"),
            request.getfixturevalue("default_worker_env"),
        )
    worker = CeleryTestWorker(made, default_worker_app)
    yield worker
    worker.teardown()


smoke_worker_image = build(
    path=str(Path(__file__).parent), buildargs={"CELERY_VERSION": celery.__version__}
)

smoke_worker_container = container(
    image="{smoke_worker_image.id}",
    environment=fxtr("container_env"),
    network="{default_pytest_celery_network.name}",
    volumes={
        "{default_worker_volume.name}": DEFAULT_WORKER_VOLUME,
        str(ROOT / "celery_fair"): {"bind": "/package/celery_fair", "mode": "ro"},
    },
    wrapper_class=SmokeWorkerContainer,
    timeout=DEFAULT_WORKER_CONTAINER_TIMEOUT,
    command=fxtr("default_worker_command"),
)


@pytest.fixture
def container_env(default_worker_env: dict[str, str]) -> dict[str, str]:
    return default_worker_env | {"PYTHONPATH": "/app:/package"}
