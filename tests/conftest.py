"""Brokers and workers for tests; see `brokers/`, `workers.py`, `publishing/`.

One broker of each kind serves a whole run (under pytest-xdist, each of its
processes; a RabbitMQ may serve several runs, see `brokers/lent.py`), and each
test gets a place of its own on it. Tests that hurt a broker take one of their
own.
"""

from __future__ import annotations

import gc
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling, Scheduling

from tests.brokers import MariaDB, PostgreSQL, RabbitMQ, RedisServer, Space, ZooKeeper
from tests.brokers.lent import VARIABLE, LentRabbitMQ
from tests.brokers.space import Server
from tests.brokers.sqs import Sqs
from tests.costs import VARIABLE as COSTS
from tests.costs import Costs
from tests.left_behind import LeftBehind
from tests.mutants.fault import read
from tests.preloaded import no_nursery_after
from tests.processes import children_hear_signals
from tests.workers import StartWorker, starting_workers

KINDS = ("rabbitmq", "redis")

# How long anything takes here, other load decides.
settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("here")

OTHER_THAN = {"rabbitmq": {"redis", "celery_redis_broker"}, "redis": {"rabbitmq"}}

CROSSED = {"solo", "threads", "prefork", "gevent", "eventlet", "classic", "quorum"}
"""Pools, and types of queues."""

LONG = (
    "faults/test_mortal.py",
    "faults/test_quick.py",
    "faults/test_silent.py",
    "integration/test_consumer_timeout.py",
    "keys/test_tenants.py",
    "test_commands.py",
    "keys/test_limits.py",
    "keys/test_lanes.py",
    "test_doctor.py",
    "integration/test_shutdown.py",
    "live/test_leashes.py",
    "once/test_once.py",
    "web/test_browser.py",
    "test_docs.py",
    "test_live_cli.py",
    "once/test_ledger_since.py",
    "once/test_ledger.py",
    "groups/test_churn.py",
    "integration/test_channels.py",
    "fast_path/test_same_messages.py",
    "keys/test_missing_rights.py",
    "groups/test_put_off.py",
    "integration/test_schedule.py",
    "live/test_names.py",
    "test_example_project.py",
    "test_ledger.py",
    "integration/test_acks.py",
    "integration/test_pools.py",
    "once/test_broker_refuses.py",
    "groups/test_away.py",
    "test_harness.py",
    "integration/test_pool_size.py",
    "eventlog/test_broken_off.py",
    "fast_path/test_instrumentation.py",
)
"""Files of half a minute or more: they begin first, or all would wait for the last of them."""

HURT = {
    "tests/integration/test_consumer_timeout.py",
    "tests/integration/test_channels.py",
    "tests/once/test_broker_refuses.py",
    "tests/faults/test_mortal.py",
    "tests/smoke/test_worker.py",
}
"""Files whose tests hurt a RabbitMQ: one process has them all. Else each would start a node first,
which takes six seconds of a processor."""

COLLECTED = pytest.StashKey[frozenset[str]]()
"""The names of all tests of the files that a run looks into, also of those that it leaves out."""

S = TypeVar("S", bound=Server | PostgreSQL | MariaDB | Sqs | ZooKeeper)


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # until all are collected: none of that is garbage
    config.pluginmanager.register(LeftBehind())
    if folder := os.environ.get(COSTS):
        config.pluginmanager.register(Costs(Path(folder)))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _children_hear_signals() -> Iterator[None]:
    with children_hear_signals(), no_nursery_after():
        yield


class _Files(LoadFileScheduling):
    """Gives each process whole files, and one all that hurt a RabbitMQ."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "hurt" if file in HURT else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    return _Files(config, log) if config.getvalue("dist") == "loadfile" else None


def running(server: S) -> Iterator[S]:
    try:
        server.start()
        server.wait_ready()
        yield server
    finally:
        server.end()


@pytest.fixture(scope="session")
def rabbitmq() -> Iterator[RabbitMQ]:
    """The run's RabbitMQ; not to be stopped or killed."""
    yield from running(LentRabbitMQ() if VARIABLE in os.environ else RabbitMQ())


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """The run's Redis; not to be stopped, killed or flushed as a whole."""
    yield from running(RedisServer())


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    """The run's PostgreSQL."""
    yield from running(PostgreSQL())


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDB]:
    """The run's MariaDB."""
    yield from running(MariaDB())


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[ZooKeeper]:
    """The run's ZooKeeper; not to be killed."""
    yield from running(ZooKeeper())


def shared_server(request: pytest.FixtureRequest) -> RabbitMQ | RedisServer:
    """Return the run's server of the kind that is the parameter of the requesting fixture."""
    server = request.getfixturevalue(
        {"rabbitmq": "rabbitmq", "redis": "redis_server"}[request.param]
    )
    assert isinstance(server, RabbitMQ | RedisServer)
    return server


@pytest.fixture
def rabbitmq_space(rabbitmq: RabbitMQ) -> Iterator[Space]:
    """A virtual host of the test's own."""
    space = rabbitmq.space()
    yield space
    rabbitmq.take_back(space)


@pytest.fixture
def redis_space(redis_server: RedisServer) -> Iterator[Space]:
    """A database of the test's own."""
    space = redis_server.space()
    yield space
    redis_server.flush(space.place)


@pytest.fixture(params=KINDS)
def space(request: pytest.FixtureRequest) -> Space:
    """A place on each broker in turn."""
    fixture = {"rabbitmq": "rabbitmq_space", "redis": "redis_space"}[request.param]
    found = request.getfixturevalue(fixture)
    assert isinstance(found, Space)
    return found


@pytest.fixture(scope="session")
def hurt_rabbitmq() -> Iterator[RabbitMQ]:
    """A RabbitMQ that tests may kill, fill or set, one after the other; they leave it well."""
    yield from running(RabbitMQ())


@pytest.fixture
def own_rabbitmq(hurt_rabbitmq: RabbitMQ) -> Iterator[RabbitMQ]:
    """That one, for one test, which may leave it killed."""
    yield hurt_rabbitmq
    if not hurt_rabbitmq.running:
        hurt_rabbitmq.restart()


@pytest.fixture
def own_redis() -> Iterator[RedisServer]:
    """A Redis for one test, which may kill it: what it has answered, it keeps."""
    yield from running(RedisServer(durable=True))


@pytest.fixture
def own_zookeeper() -> Iterator[ZooKeeper]:
    """A ZooKeeper for one test, which may kill it."""
    yield from running(ZooKeeper())


@pytest.fixture(params=KINDS)
def own_space(request: pytest.FixtureRequest) -> Space:
    """A place on a broker of each kind in turn that the test may kill."""
    server = request.getfixturevalue(f"own_{request.param}")
    assert isinstance(server, RabbitMQ | RedisServer)
    return server.space()


@pytest.fixture
def start_worker(tmp_path: Path) -> Iterator[StartWorker]:
    """Starts workers, as many as a test likes, and sees to their end.

    Takes a broker's URL (or a Space) and the options of `WorkerProcess`;
    returns when the worker consumes. All record into the same files.
    """
    with starting_workers(tmp_path) as start:
        yield start


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.stash[COLLECTED] = frozenset(item.nodeid for item in items)
    places = {Path(__file__).parent / name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path, len(places)))
    for item in others(items):
        item.add_marker(pytest.mark.wide)


def others(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """Those that show once more what another shows: they are wide.

    A law is tried on each broker, or, where it is `either_broker`, on the one that this names, or
    queues that its test names, on one, and which that is differs from test to test. A case that a
    fault names stays, and is then that one.
    """
    named = {test for fault in read() for test in fault.tests}
    alike = defaultdict(list)
    shown = set()
    for item in items:
        words = case(item)
        law = item.nodeid.partition("[")[0], frozenset(words - CROSSED)
        if item.nodeid in named:
            shown.add(law)
            continue
        if item.get_closest_marker("wide"):
            continue
        marker = item.get_closest_marker("either_broker")
        if marker and words & OTHER_THAN[marker.args[0] if marker.args else "rabbitmq"]:
            yield item
        elif words & CROSSED:
            alike[law].append(item)
    for law, cases in alike.items():
        if law not in shown:
            del cases[crc32(law[0].encode()) % len(cases)]
        yield from cases


def case(item: pytest.Item) -> frozenset[str]:
    """What a test's parameters are called."""
    called = getattr(item, "callspec", None)
    return frozenset() if called is None else frozenset(called.id.split("-"))
