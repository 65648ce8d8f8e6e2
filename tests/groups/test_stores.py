"""One suite for every store: what a group's document may rely on."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from celery.exceptions import ImproperlyConfigured

from celery_fair.core.groups.membership import Group, Terms, turn
from celery_fair.groups import GroupStore, StoreUnreachableError, store_at
from celery_fair.groups.document import decoded, encoded
from tests.brokers import RedisServer, ZooKeeper
from tests.groups.memory_store import MemoryStore
from tests.groups.stores import LASTING, store_url
from tests.patience import wait_long_for_answers
from tests.ports import free_port
from tests.waiting import wait_for


@pytest.fixture(params=("memory", *LASTING))
def store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[GroupStore]:
    """Of each kind, with a client that a slow server does not make give up."""
    wait_long_for_answers(monkeypatch)
    if request.param == "memory":
        yield MemoryStore()
        return
    for url in store_url(request.param, request, tmp_path):
        made = store_at(url)
        yield made
        made.close()


def test_one_write_for_each_version(store: GroupStore) -> None:
    assert store.read("g")[:2] == (0, None)
    assert store.write("g", 0, "first")
    version, text, _ = store.read("g")
    assert (version > 0, text) == (True, "first")
    assert not store.write("g", 0, "late")
    assert store.write("g", version, "ünd 'so' \\ weiter")
    assert not store.write("g", version, "late")
    assert store.read("g").text == "ünd 'so' \\ weiter"
    assert store.read("other")[:2] == (0, None)


def test_of_many_writers_one_wins_each_time(store: GroupStore) -> None:
    """Each adds a line to what it has read: none is lost."""
    writers, each = 4, 10
    start = threading.Barrier(writers)

    def write(name: int) -> None:
        start.wait()
        for line in range(each):
            while True:
                version, text, _ = store.read("g")
                if store.write("g", version, f"{text or ''}{name}:{line};"):
                    break

    threads = [threading.Thread(target=write, args=(name,)) for name in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    lines = (store.read("g").text or "").split(";")[:-1]
    assert sorted(lines) == sorted(f"{n}:{line}" for n in range(writers) for line in range(each))


def test_clock_runs_as_ours_does(store: GroupStore) -> None:
    before, ours = store.read("g").now, time.monotonic()
    later, is_early = before, True
    while is_early:
        is_early = time.monotonic() < ours + 0.05
        now = store.read("g").now
        assert now >= later
        later = now
    assert 0 < later - before < time.monotonic() - ours + 5


@pytest.mark.parametrize("kind", LASTING)
def test_clock_is_the_stores_own(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever this machine's shows: leases are judged by one clock."""
    true = time.time
    for url in store_url(kind, request, tmp_path):
        name = f"celery_fair.groups.{kind if kind in {'redis', 'zookeeper'} else 'sql'}_store"
        monkeypatch.delitem(sys.modules, name, raising=False)  # whatever name it has for the clock
        monkeypatch.setattr(time, "time", lambda: true() - 3600)
        store = store_at(url)
        before = true()
        now = store.read("g").now
        assert before - 1 < now < true() + 1
        monkeypatch.undo()
        store.close()


def test_schema_is_made_once_and_again(store: GroupStore) -> None:
    store.create()
    assert store.write("g", 0, "kept")
    store.create()
    assert store.read("g").text == "kept"


def test_large_group(store: GroupStore) -> None:
    group = Group(active=frozenset(f"customers.{n}" for n in range(1000)))
    for number in range(100):
        group = turn(group, f"celery@worker{number}:12345678", 0.0, Terms()).group
    text = encoded(group)
    assert store.write("g", 0, text)
    assert decoded(store.read("g").text) == group


def test_document_of_another_format() -> None:
    assert decoded(None) == Group()
    with pytest.raises(ValueError, match="has format 9, this is for 1"):
        decoded('{"v": 9}')


@pytest.mark.parametrize("kind", ["redis", "postgresql", "mariadb", "zookeeper"])
def test_store_that_is_away(kind: str) -> None:
    port = free_port()
    url = {
        "redis": f"redis://127.0.0.1:{port}/0",
        "postgresql": f"postgresql+psycopg://nobody@127.0.0.1:{port}/x",
        "mariadb": f"mariadb+pymysql://nobody@127.0.0.1:{port}/x",
        "zookeeper": f"zookeeper://127.0.0.1:{port}",
    }[kind]
    store = store_at(url)
    with pytest.raises(StoreUnreachableError):
        store.read("g")
    with pytest.raises(StoreUnreachableError):
        store.write("g", 1, "text")
    store.close()


def test_table_that_is_gone_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "g.db"
    store = store_at(f"sqlite:///{path}")
    assert store.write("g", 0, "text")
    store.close()
    path.unlink()
    assert store.read("g")[:2] == (0, None)
    store.close()


def test_redis_that_was_emptied(own_redis: RedisServer) -> None:
    space = own_redis.space()
    store = store_at(space.url)
    assert store.write("g", 0, "text")
    own_redis.flush(space.place)
    assert not store.write("g", 1, "text")
    store.close()


def test_zookeeper_that_was_emptied(zookeeper: ZooKeeper) -> None:
    url = zookeeper.url()
    store = store_at(url)
    for name in ("a/b", "..", "ü"):
        assert store.write(name, 0, name)
        assert store.read(name)[:2] == (1, name)
    with zookeeper.client() as client:
        client.delete(urlsplit(url).path, recursive=True)
    assert not store.write("a/b", 1, "text")
    with pytest.raises(StoreUnreachableError, match="NoNodeError"):
        store.read("a/b")
    assert store.read("a/b")[:2] == (0, None)
    assert store.write("a/b", 0, "text")
    store.close()


def test_zookeeper_that_stands_still(own_zookeeper: ZooKeeper) -> None:
    store = store_at(own_zookeeper.url())
    assert store.write("g", 0, "text")
    os.kill(own_zookeeper.pid, signal.SIGSTOP)
    process = psutil.Process(own_zookeeper.pid)
    wait_for(lambda: process.status() == psutil.STATUS_STOPPED, 30, "SIGSTOP")
    with pytest.raises(StoreUnreachableError, match="ZooKeeper at 127"):
        store.read("g")
    os.kill(own_zookeeper.pid, signal.SIGCONT)

    def answers() -> bool:
        with suppress(StoreUnreachableError):
            return store.read("g")[:2] == (1, "text")
        return False

    wait_for(answers, 30, "the store")
    os.kill(own_zookeeper.pid, signal.SIGSTOP)
    store.close()


def test_zookeeper_with_a_password(zookeeper: ZooKeeper) -> None:
    url = zookeeper.url()
    owner, stranger = (store_at(url.replace("//", f"//{who}:p%40ss@")) for who in ("me", "you"))
    assert owner.write("g", 0, "text")
    assert owner.read("g").text == "text"
    with pytest.raises(StoreUnreachableError, match="NoAuthError"):
        stranger.write("g", 1, "text")
    owner.close()
    stranger.close()


def test_node_that_is_no_group(zookeeper: ZooKeeper) -> None:
    url = zookeeper.url()
    store = store_at(url)
    assert store.write("g", 0, "text")
    with zookeeper.client() as client:
        client.set(f"{urlsplit(url).path}/celery-fair/group:g", b"something else")
    with pytest.raises(ValueError, match="celery-fair/group:g in ZooKeeper holds no group"):
        store.read("g")
    store.close()


@pytest.mark.parametrize(
    "url",
    [
        "nonsense://x",
        "redis://127.0.0.1:x/",
        "zookeeper://",
        "zookeeper://127.0.0.1:x",
        "zookeeper://127.0.0.1,/groups",
        "zookeeper://127.0.0.1/../groups",
        "zookeeper://127.0.0.1/groups?tls=1",
        "zookeeper://somebody@127.0.0.1/groups",
    ],
)
def test_no_such_store(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="fair_group_store"):
        store_at(url)


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for part in ("store", "session"):
        monkeypatch.delitem(sys.modules, f"celery_fair.groups.zookeeper_{part}", raising=False)
    monkeypatch.setitem(sys.modules, "kazoo.client", None)
    with pytest.raises(ImproperlyConfigured, match=r"pip install celery-fair\[zookeeper\]"):
        store_at("zookeeper://127.0.0.1")
