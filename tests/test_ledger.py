"""Ledgers, on the databases themselves: who claims first, and what is forgotten."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import redis
from celery.exceptions import ImproperlyConfigured
from sqlalchemy import MetaData, create_engine, text

from celery_fair.groups import StoreUnreachableError, store_at
from celery_fair.ledger import Ledger, LedgerUnreachableError, ledger_at
from celery_fair.tasks import claimable
from tests.brokers import MariaDB, PostgreSQL, RedisServer, Space
from tests.conftest import running
from tests.faults.ledgers import OnPostgreSQL
from tests.patience import wait_long_for_answers
from tests.waiting import wait_equal, wait_for

Open = Callable[..., Ledger]


@pytest.fixture(params=["redis", "sqlite", "postgresql", "mariadb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/ledger.db"
    if request.param in {"postgresql", "mariadb"}:
        database = request.getfixturevalue(request.param)
        assert isinstance(database, PostgreSQL | MariaDB)
        return database.database()
    space = request.getfixturevalue("redis_space")
    assert isinstance(space, Space)
    return space.url


@pytest.fixture
def opened(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Opens ledgers, each as another worker would, but for its haste."""
    wait_long_for_answers(monkeypatch)
    ledgers: list[Ledger] = []

    def open_(url: str = url, expiry: float = 3600) -> Ledger:
        ledgers.append(ledger_at(url, expiry))
        return ledgers[-1]

    yield open_
    for ledger in ledgers:
        ledger.close()


def empty(url: str) -> None:
    if url.startswith("redis"):
        with redis.Redis.from_url(url) as client:
            client.flushdb()
    else:
        execute(url, "DELETE FROM celery_fair_claims")


def execute(url: str, statement: str) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


def test_who_comes_first_has_it(opened: Open) -> None:
    one, other = opened(), opened()
    first = one.claim("order 7", "m1", doubt=False)
    second = other.claim("order 7", "m2", doubt=True)
    assert (first.owner, second.owner) == (None, "m1")
    assert first.epoch == second.epoch <= first.now <= second.now
    assert other.claim("order 8", "m2", doubt=False).owner is None


def test_one_of_many_at_once(opened: Open) -> None:
    ledgers = [opened() for _ in range(8)]
    with ThreadPoolExecutor(8) as threads:
        for work in map(str, range(20)):
            claims = list(threads.map(lambda each, w=work: each.claim(w, "m", False), ledgers))
            assert sum(claim.owner is None for claim in claims) == 1
            assert len({claim.epoch for claim in claims}) == 1


def test_a_claim_that_is_given_up_is_free(opened: Open) -> None:
    ledger = opened()
    ledger.claim("w", "m1", doubt=False)
    ledger.forget("w")
    ledger.forget("another")
    assert ledger.claim("w", "m2", doubt=False).owner is None


def test_a_claim_of_which_its_owner_has_not_heard_is_taken_over(opened: Open) -> None:
    one, other = opened(), opened()
    one.claim("w", "1 m", doubt=False)
    assert other.claim("w", "2 m", doubt=False, late="0 m").owner == "1 m"
    assert other.claim("w", "2 m", doubt=True, late="1 m").owner is None
    assert one.claim("w", "3 m", doubt=False, late="1 m").owner == "2 m"


def test_a_new_epoch(opened: Open) -> None:
    one, other = opened(), opened()
    before = one.claim("w", "m1", doubt=False)
    assert other.claim("v", "m1", doubt=False).epoch == before.epoch
    one.renew()
    after = other.claim("w", "m2", doubt=False)
    assert after.owner == "m1"
    assert before.epoch < after.epoch <= after.now


def test_an_epoch_holds_for_one_expiry(opened: Open) -> None:
    """What was claimed for a shorter time than ours may be forgotten."""
    short, long = opened(expiry=60), opened(expiry=3600)
    epochs = [
        ledger.claim(f"w{n}", "m", doubt=n % 2 > 0).epoch
        for n, ledger in enumerate([short, short, long, long, opened(expiry=3600), short, long])
    ]
    a, b, c, d, e, f, g = epochs
    assert a == b < c == d == e < f < g


@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)
def test_a_workers_wrong_clock_means_nothing(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """By one that is behind, an epoch would be older than what has been forgotten before it."""
    now = time.time()
    monkeypatch.setattr("celery_fair.ledger.sql_ledger.time", lambda: now - 3600)
    claim = opened().claim("w", "m", doubt=True)
    assert now - 60 < claim.epoch <= claim.now < now + 60


def test_a_clock_that_was_behind_when_it_was_looked_at_means_nothing_later() -> None:
    """What is claimed when it is right again is not forgotten for that, nor is an epoch older."""
    stepping = OnPostgreSQL()
    try:
        stepping.step(-30 * 86400)
        with (
            closing(ledger_at(stepping.url, 3600)) as ledger,
            closing(ledger_at(stepping.url, 3600)) as other,
            closing(ledger_at(stepping.url, 60)) as short,
        ):
            ledger.claim("before", "m0", doubt=False)
            stepping.step(0)
            ledger.claim("w", "m1", doubt=False)
            answer = other.claim("w", "m2", doubt=True)
            assert answer.owner == "m1"
            short.claim("v", "m3", doubt=False)
            assert ledger.claim("u", "m1", doubt=False).epoch > answer.now - 60
    finally:
        stepping.end()


def test_a_claim_that_was_forgotten_early_is_no_proof_for_who_forgets_late(opened: Open) -> None:
    short, long = opened(expiry=0.2), opened(expiry=3600)
    published = short.claim("first", "l", doubt=True).now
    assert short.claim("w", "m", doubt=False).owner is None
    wait_equal(lambda: short.claim("w", "n", doubt=False).owner, None, timeout=30)
    short.forget("w")
    answer = long.claim("w", "m", doubt=True)
    assert answer.owner is None
    assert answer.epoch > published


def test_a_file_that_was_restored_may_have_forgotten(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    with closing(ledger_at(f"sqlite:///{file}", 3600)) as ledger:
        before = ledger.claim("w", "m1", doubt=True)
    copy = shutil.copy(file, tmp_path / "copy.db")
    with closing(ledger_at(f"sqlite:///{file}", 3600)) as ledger:
        assert ledger.claim("v", "m1", doubt=True).epoch == before.epoch
    Path(copy).replace(file)
    with closing(ledger_at(f"sqlite:///{file}", 3600)) as ledger:
        after = ledger.claim("v", "m2", doubt=True)
    assert after.owner is None
    assert after.epoch > before.now


def test_a_table_that_was_restored_may_have_forgotten(postgresql: PostgreSQL) -> None:
    with closing(ledger_at(url := postgresql.database(), 3600)) as ledger:
        before = ledger.claim("w", "m1", doubt=True)
        execute(url, "CREATE TABLE copy AS SELECT * FROM celery_fair_claims")
        assert ledger.claim("v", "m1", doubt=True).epoch == before.epoch
        execute(url, "TRUNCATE celery_fair_claims")
        execute(url, "INSERT INTO celery_fair_claims SELECT * FROM copy")
        after = ledger.claim("v", "m2", doubt=True)
        assert after.owner is None
        assert after.epoch > before.now


def test_claims_expire(opened: Open) -> None:
    """The first one that a second comes too early for: between the two a process may stand."""
    ledger = opened(expiry=0.2)
    works = map(str, count())

    def claimed() -> str | None:
        work = next(works)
        ledger.claim(work, "m1", doubt=False)
        return work if ledger.claim(work, "m2", doubt=False).owner == "m1" else None

    work = wait_for(claimed, 30)
    wait_equal(lambda: ledger.claim(work, "m3", doubt=False).owner, None, timeout=30)


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_what_was_cleaned_away_by_a_wrong_clock_is_forgotten(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was ahead for a while: when it is right again, the want of a claim proves nothing."""
    ledger, right = opened(expiry=60), time.time
    before = ledger.claim("w", "m1", doubt=True)
    with monkeypatch.context() as patched:
        patched.setattr("celery_fair.ledger.sql_ledger.time", lambda: right() + 3600)
        assert opened(expiry=60).claim("v", "m1", doubt=False).owner is None
    after = ledger.claim("w", "m2", doubt=True)
    assert after.owner is None
    assert before.now < after.now < before.now + 3600
    assert after.epoch > before.now


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_what_has_expired_is_forgotten_in_parts(
    opened: Open, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a claim would have to wait for so many that it is given up."""
    ledger, right = opened(expiry=60), time.time
    for work in "abcde":
        ledger.claim(work, "m", doubt=False)
    monkeypatch.setattr("celery_fair.ledger.sql_ledger.time", lambda: right() + 3600)
    monkeypatch.setattr("celery_fair.ledger.sql_ledger._CLEANED", 2)
    monkeypatch.setattr("celery_fair.ledger.sql_ledger._CLEAN_ON", 0.0)
    engine = create_engine(url)
    later = opened(expiry=60)
    left = []
    for work in "uvwx":
        later.claim(work, "m", doubt=False)
        with engine.connect() as connection:
            known = connection.execute(text("SELECT key FROM celery_fair_claims")).scalars()
            left.append(len(set(known) & set("abcde")))
    engine.dispose()
    assert left == [3, 1, 0, 0]


def test_an_emptied_ledger_knows_that_it_has_forgotten(opened: Open, url: str) -> None:
    ledger = opened()
    before = ledger.claim("w", "m1", doubt=False)
    empty(url)
    after = ledger.claim("w", "m2", doubt=True)
    assert after.owner is None
    assert before.now <= after.epoch <= after.now


@pytest.mark.parametrize("url", ["sqlite", "postgresql", "mariadb"], indirect=True)
def test_a_table_that_was_dropped_is_made_again(opened: Open, url: str) -> None:
    ledger = opened()
    before = ledger.claim("w", "m1", doubt=False)
    execute(url, "DROP TABLE celery_fair_claims")
    after = ledger.claim("w", "m2", doubt=True)
    assert after.owner is None
    assert after.epoch > before.epoch


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_a_database_that_is_away_and_returns(kind: str, request: pytest.FixtureRequest) -> None:
    """Perhaps from a snapshot, or another in its place: it may have forgotten."""
    server = request.getfixturevalue(kind)
    assert isinstance(server, PostgreSQL | MariaDB)
    with closing(ledger_at(server.database(), 3600)) as ledger:
        before = ledger.claim("w", "m1", doubt=False)
        server.stop()
        try:
            with pytest.raises(LedgerUnreachableError):
                ledger.claim("v", "m1", doubt=False)
        finally:
            server.start()
            server.wait_ready()
        after = ledger.claim("w", "m2", doubt=True)
        assert after.owner == "m1"
        assert after.epoch > before.now
        assert ledger.claim("u", "m2", doubt=True).epoch == after.epoch


def test_a_redis_that_was_restarted_may_have_forgotten(own_redis: RedisServer) -> None:
    with closing(ledger_at(own_redis.url(), 3600)) as ledger:
        before = ledger.claim("w", "m1", doubt=False)
        own_redis.restart()
        assert ledger.claim("v", "m1", doubt=False).epoch == before.epoch  # it is not looked at
        after = ledger.claim("w", "m2", doubt=True)
        assert after.owner == "m1"
        assert after.epoch > before.now
        assert ledger.claim("u", "m2", doubt=True).epoch == after.epoch


def test_a_redis_that_evicts_keys_may_have_forgotten(own_redis: RedisServer) -> None:
    with closing(ledger_at(own_redis.url(), 3600)) as ledger:
        before = ledger.claim("w", "m1", doubt=False)
        own_redis.client.set("large", b"x" * 3_000_000)
        own_redis.client.config_set("maxmemory-policy", "allkeys-random")
        used = own_redis.client.info("memory")["used_memory"]
        own_redis.client.config_set("maxmemory", used - 1_000_000)
        own_redis.client.set("another", b"x")
        own_redis.client.config_set("maxmemory", 0)
        assert own_redis.client.info("stats")["evicted_keys"] > 0
        assert ledger.claim("v", "m1", doubt=True).epoch > before.epoch


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", "sqlite:////no/such/folder/ledger.db"])
def test_who_does_not_answer(url: str) -> None:
    with closing(ledger_at(url, 3600)) as ledger:
        with pytest.raises(LedgerUnreachableError):
            ledger.claim("w", "m", doubt=False)
        with pytest.raises(LedgerUnreachableError):
            ledger.forget("w")


@pytest.mark.parametrize(
    "url", ["redis://host:port/0", "nosuchdb://h/d", "postgresql+nosuchdriver://h/d"]
)
def test_what_cannot_be_one(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="fair_ledger"):
        ledger_at(url, 3600)


def test_a_missing_package_is_named_and_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("ledger.sql_ledger", "sql_client"):
        monkeypatch.delitem(sys.modules, f"celery_fair.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(ImproperlyConfigured, match=r"-fair\[sql\].* There are redis://…, sqlite"):
        ledger_at("mysql://u:secret@h/d", 3600)


@pytest.mark.parametrize(
    ("url", "what_to_do"),
    [
        ("mysql+pymysql://u:secret@h/d", "if it is MariaDB, mariadb+pymysql://"),
        ("mariadb://u:secret@h/d", "if it is MariaDB, mariadb+pymysql://"),
        ("mariadb+mariadbconnector://u:secret@h/d", "mariadb+pymysql://…"),
        ("mssql+pyodbc://u:secret@h/d", "use redis://…, sqlite:///…, postgresql+psycopg://… or"),
        ("sqlite://", "a database in memory is another one in each process; name a file"),
        ("sqlite:///:memory:", "a database in memory is another one in each process"),
        ("sqlite:///file:x?mode=memory&uri=true", "a database in memory is another one"),
        (
            "oracle://u:secret@h/d",
            "nor a database, with its driver, that celery-fair is tried with",
        ),
        (
            "cockroachdb://u:secret@h/d",
            "nor a database, with its driver, that celery-fair is tried with",
        ),
    ],
)
@pytest.mark.parametrize("at", [lambda url: ledger_at(url, 3600), store_at], ids=["", "groups"])
def test_what_is_not_tried_is_refused_by_name(
    url: str, what_to_do: str, at: Callable[[str], object]
) -> None:
    with pytest.raises(ImproperlyConfigured) as refused:
        at(url)
    assert what_to_do in str(refused.value)
    assert url.partition(":")[0] in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_key_that_is_text_of_any_kind(opened: Open) -> None:
    ledger = opened()
    for work in ("ümläut ✓", "a\nb", "%s {} '\"; --", "x" * 200):
        assert ledger.claim(work, "m", doubt=False).owner is None
        assert ledger.claim(work, "n", doubt=False).owner == "m"


@pytest.mark.parametrize("text", ["a\0b", "a\ud800", "x" * 300], ids=["nul", "half", "long"])
def test_what_is_no_text_to_a_database_is_claimed_by_its_digest(opened: Open, text: str) -> None:
    """It would count as away, and what is judged by the broker's word alone starts again."""
    ledger, name = opened(), claimable(text)
    assert ledger.claim(name, name, doubt=False).owner is None
    assert ledger.claim(name, "n", doubt=True).owner == name
    assert name != claimable(text + "b")


def test_keys_that_differ_a_little(opened: Open) -> None:
    """In case, in an accent, in a space at the end; and an owner is who it is."""
    ledger = opened()
    for work in ("order A", "order a", "order a ", "order ä", "order á"):
        assert ledger.claim(work, "Müller ✓ ", doubt=False).owner is None
        assert ledger.claim(work, "n", doubt=True).owner == "Müller ✓ "


def test_nothing_else_is_in_it(opened: Open, url: str, redis_space: Any) -> None:
    if url.startswith("redis"):
        opened().claim("w", "m", doubt=False)
        with redis_space.server.client_of(redis_space.place) as client:
            assert set(client.keys()) == {b"celery-fair:ledger", b"celery-fair:claim:w"}
            assert 0 < client.pttl("celery-fair:claim:w") <= 3_600_000


def test_a_redis_that_is_the_master_again_proves_nothing(own_redis: RedisServer) -> None:
    """What another was told meanwhile, it may lack; it is the same process all the time."""
    with (
        contextmanager(running)(RedisServer()) as other,
        closing(ledger_at(own_redis.url(), 3600)) as ledger,
        redis.Redis.from_url(own_redis.url()) as one,
        redis.Redis.from_url(other.url()) as second,
    ):
        before = ledger.claim("u", "m1", doubt=True)
        assert ledger.claim("v", "m1", doubt=True).epoch == before.epoch
        for server, master in ((second, own_redis), (one, other)):
            server.replicaof("127.0.0.1", str(master.port))
            wait_for(lambda to=server: to.info("replication")["master_link_status"] == "up", 30)
            server.replicaof("NO", "ONE")
        after = ledger.claim("w", "m1", doubt=True)
        assert after.epoch > before.now


LOCKS = {
    "sqlite": ("BEGIN EXCLUSIVE", "ROLLBACK"),
    "postgresql": ("BEGIN; LOCK TABLE celery_fair_claims", "ROLLBACK"),
    "mariadb": ("LOCK TABLES celery_fair_claims WRITE", "UNLOCK TABLES"),
}
"""How somebody else comes to hold up whoever wants the table, and how that ends."""


@pytest.mark.parametrize("url", list(LOCKS), indirect=True)
def test_a_locked_database_is_waited_for_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not one without tables, which would be waited for as long again."""
    begin, end = LOCKS[url.partition("+")[0].partition(":")[0]]
    with closing(ledger_at(url, 3600)) as ledger, locking(url) as locks:
        ledger.claim("v", "m1", doubt=False)
        made: list[object] = []
        monkeypatch.setattr(MetaData, "create_all", lambda *args: made.append(args))
        locks(begin)
        with pytest.raises(LedgerUnreachableError, match=r"locked|timed out") as error:
            ledger.claim("card 4111", "m1", doubt=False)
        locks(end)
        assert not made
        claim = ledger.claim("card 4111", "m2", doubt=True)
        assert claim.owner in {None, "m1"}  # a server may do later what it has been asked for
        assert ledger.claim("card 4111", "m3", doubt=True).owner == (claim.owner or "m2")
    assert "4111" not in str(error.value)  # a claim is made of a task's arguments


@contextmanager
def locking(url: str) -> Iterator[Callable[[str], None]]:
    """Yield what takes words of SQL, on a connection of its own."""
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:

        def says(words: str) -> None:
            for each in words.split("; "):
                connection.exec_driver_sql(each)

        yield says
    engine.dispose()


def test_a_postgresql_that_is_held_up_is_not_waited_for(postgresql: PostgreSQL) -> None:
    """Its host takes what it is sent, and nothing answers."""
    url = postgresql.database()
    with closing(ledger_at(url, 3600)) as ledger, closing(store_at(url)) as store:
        ledger.claim("w", "m1", doubt=False)
        store.create()
        with postgresql.held_up():
            with pytest.raises(LedgerUnreachableError, match="no answer within 2 s"):
                ledger.claim("v", "m1", doubt=True)
            with pytest.raises(StoreUnreachableError, match="no answer within 2 s"):
                store.read("g")
        assert ledger.claim("w", "m2", doubt=True).owner == "m1"
        assert store.read("g").text is None
