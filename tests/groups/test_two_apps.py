"""Apps on different brokers that have one store, and a group of one name: kept from each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from celery_fair import install
from celery_fair.brokers.redis import Commands, marked
from celery_fair.operate.doctor import findings
from tests.brokers import RabbitMQ, RedisServer, Space
from tests.conftest import shared_server
from tests.groups.fleet import STEADY, Fleet
from tests.groups.test_status import asked
from tests.waiting import wait_for
from tests.workers import StartWorker

WHERE = {"rabbitmq": "RabbitMQ, cluster ", "redis": "Redis, where celery-fair:broker is "}


@pytest.fixture(params=["rabbitmq", "redis"])
def spaces(request: pytest.FixtureRequest) -> Iterator[tuple[Space, Space]]:
    """Two places on one server: as far as queues are concerned, two brokers."""
    server = shared_server(request)
    ours, theirs = server.space(), server.space()
    yield ours, theirs
    for space in (ours, theirs):
        emptied(space)


def emptied(space: Space) -> None:
    if isinstance(space.server, RedisServer):
        space.server.flush(space.place)
    else:
        assert isinstance(space.server, RabbitMQ)
        space.server.delete_vhost(space.place)


@pytest.fixture
def make_fleet(start_worker: StartWorker, tmp_path: Path) -> Callable[..., Fleet]:
    def made(space: Space, lease: float = STEADY) -> Fleet:
        store = f"sqlite:///{tmp_path}/g.db"
        return Fleet(space, start_worker, tmp_path, store, 4, lease=lease)

    return made


def test_another_broker_is_refused(
    spaces: tuple[Space, Space], make_fleet: Callable[..., Fleet]
) -> None:
    """Until those who were first are gone: then the group is its own."""
    ours, theirs = spaces
    fleet = make_fleet(ours)
    first = fleet.worker()
    fleet.wait_counts([4], first)
    other = fleet.worker(broker=theirs.url)
    (said,) = wait_for(lambda: fleet.of("failed"), 20, other.log)
    assert (said["worker"], said["exception"]) == (other.hostname, "OtherBrokerError")
    for part in (
        f"{first.hostname}:",
        "is a member of it on another broker",
        "give this app's group another name ('group' in fair_partitions)",
    ):
        assert part in said["text"]
    assert said["text"].count(WHERE[ours.kind]) == 2
    assert said["will_recover"] is True

    asks = Celery("other", broker=theirs.url, set_as_current=False)
    asks.conf.update(fleet.conf)
    (finding,) = (f for f in findings(install(asks), 0) if f.topic == "fair_group_store")
    assert (finding.level, finding.text.count(WHERE[ours.kind])) == ("wrong", 2)
    assert "group 'customers' is one of workers on another broker" in finding.text

    shown = asked(fleet.conf | {"broker_url": theirs.url}, "status")
    assert "Note: group 'customers' is one of workers on another broker: " in shown.stderr
    assert asked(fleet.conf | {"broker_url": ours.url}, "status").stderr == ""

    keys = ["a", "g", "h", "i"]
    fleet.publish(keys, 2)
    fleet.records.finished.wait(8)
    assert fleet.counts(first, other) == [0, 4]
    assert first.stop() == 0
    fleet.wait_counts([4], other)
    assert other.stop() == 0


def test_one_broker_by_two_names(
    spaces: tuple[Space, Space], make_fleet: Callable[..., Fleet]
) -> None:
    space, _ = spaces
    assert "127.0.0.1" in space.url
    fleet = make_fleet(space)
    by_name = space.url.replace("127.0.0.1", "127.1")
    workers = [fleet.worker(), fleet.worker(broker=by_name)]
    fleet.wait_counts([2, 2], *workers)
    assert not fleet.of("failed")


def test_of_two_who_name_a_redis_at_once_one_does(redis_space: Space) -> None:
    """Both have found it without a name, when the first gives it one."""
    app = Celery(broker=redis_space.url, set_as_current=False)
    with app.connection_for_write() as connection:
        plain, told = Commands(connection.default_channel), list[str]()

        class Second(Commands):
            def __call__(self, *args: Any) -> Any:
                found = super().__call__(*args)
                told.append(marked(plain))  # just after it has looked
                return found

        assert [marked(Second(connection.default_channel))] == told
        assert marked(plain) == told[0] != ""


def test_broker_that_was_emptied(redis_space: Space, make_fleet: Callable[..., Fleet]) -> None:
    """Redis forgets its name; those who are there find the new one, whoever has given it."""
    fleet = make_fleet(redis_space, lease=STEADY / 4)
    first = fleet.worker()
    fleet.wait_counts([4], first)
    emptied(redis_space)
    second = fleet.worker()
    fleet.wait_counts([2, 2], first, second)
