"""What is known of a delivery, by the broker's word, the ledger's, and what its headers say."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from celery_fair.core.disposition import Delivery
from celery_fair.headers import LEDGER, PUBLISHED, STRICT
from celery_fair.ledger import Claim, Ledger, LedgerUnreachableError, fingerprint
from celery_fair.ledger.sql_ledger import SqlLedger
from celery_fair.tasks import claimable, is_of
from celery_fair.worker.launch.admission import Claims
from tests.worker.parts import Request, non_repeatable, shelf

URL = "redis://:secret@host/1"
HOUR = 3600.0
FRESH, REDELIVERED, UNKNOWN = Delivery.FRESH, Delivery.REDELIVERED, Delivery.UNKNOWN


class Shelved(Ledger):
    """An hour old, and perhaps away, or too late with its answers."""

    def __init__(self, claimed: dict[str, str], away: bool = False, late: bool = False) -> None:
        super().__init__(URL, 24 * HOUR)
        self.claimed, self.away, self.late = claimed, away, late
        self.renewed = 0

    def claim(self, key: str, owner: str, doubt: bool, late: str = "") -> Claim:
        if self.away:
            raise LedgerUnreachableError
        now = time.time()
        had = self.claimed.get(key)
        if had is None or had == late:
            had, self.claimed[key] = None, owner
        if self.late:
            raise LedgerUnreachableError
        return Claim(had, now - HOUR, now)

    def forget(self, key: str) -> None: ...

    def renew(self) -> None:
        self.renewed += 1


def judged(
    known: Ledger | None, redelivered: bool, /, since: float | None = 0.0, **headers: Any
) -> Delivery:
    named = {LEDGER: fingerprint(URL), PUBLISHED: time.time() - HOUR / 2}
    named |= {"redelivered": redelivered}
    named |= {f"x-fair-{name}": value for name, value in headers.items()}
    message = shelf().put("a", **{k: v for k, v in named.items() if v is not None})[0]
    return Claims(known, since).judge(Request(message, non_repeatable()))[0]


def test_what_is_not_claimed_has_not_started_if_all_starts_are_claimed() -> None:
    assert judged(Shelved({}), True) is Delivery.UNSTARTED
    assert judged(Shelved({}), True, since=time.time() - HOUR / 4) is REDELIVERED
    assert judged(Shelved({}), True, since=None) is REDELIVERED
    assert judged(Shelved({"a": "b"}), True) is Delivery.CLAIMED


@pytest.mark.parametrize("another", [None, "another", 7, ["x"]])
def test_of_what_names_another_ledger_it_proves_nothing(another: Any) -> None:
    assert judged(Shelved({}), True, ledger=another) is REDELIVERED


def test_what_was_marked_is_judged_by_the_brokers_word() -> None:
    assert judged(Shelved({}), True, strict=True) is REDELIVERED
    assert judged(Shelved({}), False, strict=True) is FRESH
    assert judged(None, False, strict=True) is FRESH
    assert judged(Shelved({"a": "b"}), False, strict=True) is Delivery.CLAIMED


@pytest.mark.parametrize("id_", ["i" * 300, "i\0", "i\ud800"], ids=["long", "nul", "half"])
def test_any_id_is_claimed_by_what_a_ledger_takes(id_: str) -> None:
    known = Shelved({})
    [message] = shelf().put(id_)
    Claims(known).judge(Request(message, non_repeatable()))
    [(work, owner)] = known.claimed.items()
    assert work == owner.partition(" ")[2] == claimable(id_) != id_
    assert is_of(owner, id_)
    assert not is_of(owner, f"another {id_}")


def test_a_claim_that_was_made_too_late_is_the_marked_copys() -> None:
    """And then that delivery's: one that comes again, with the same mark, finds it claimed."""
    ledger = Shelved({}, late=True)
    [message] = shelf().put("a", **{LEDGER: fingerprint(URL)})
    delivery, _, mark = Claims(ledger).judge(Request(message, non_repeatable()))
    assert delivery is UNKNOWN
    ledger.late = False
    assert judged(ledger, True) is Delivery.CLAIMED
    assert judged(ledger, False, strict=True) is Delivery.CLAIMED
    assert judged(ledger, False, strict="another") is Delivery.CLAIMED
    assert judged(ledger, False, strict=mark) is FRESH
    assert judged(ledger, False, strict=mark) is Delivery.CLAIMED
    assert judged(ledger, True, strict=mark) is Delivery.CLAIMED


def test_what_starts_without_a_claim_gives_none_up() -> None:
    """It may be another message's, for the same work."""
    [message] = shelf().put("a", **{LEDGER: fingerprint(URL), STRICT: True})
    found = Claims(Shelved({}, away=True)).judge(Request(message, non_repeatable()))
    assert found[:2] == (FRESH, "")


def test_a_claim_that_was_made_by_a_lost_connection_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database is asked once more; the claim that it finds there is of this very attempt."""
    ledger = SqlLedger(f"sqlite:///{tmp_path}/ledger.db", HOUR)
    claim = ledger._claim

    def lost(*args: Any) -> None:
        monkeypatch.undo()
        claim(*args)
        raise OperationalError("", None, Exception("server closed the connection unexpectedly"))

    with closing(ledger):
        Claims(ledger).open()  # the table is there
        monkeypatch.setattr(ledger, "_claim", lost)
        assert judged(ledger, False, ledger=None) is FRESH
        assert judged(ledger, False, ledger=None) is Delivery.CLAIMED


def test_what_another_ledger_may_be_asked_about_is_marked_first() -> None:
    assert judged(None, False) is UNKNOWN
    assert judged(None, True) is REDELIVERED
    assert judged(None, False, ledger=None) is FRESH
    assert judged(Shelved({}), False) is FRESH
    assert judged(Shelved({}), False, ledger="another") is UNKNOWN
    assert judged(Shelved({}), False, ledger="another", strict=True) is FRESH


def test_what_comes_while_the_ledger_is_away_is_marked_first() -> None:
    assert judged(Shelved({}, away=True), False) is UNKNOWN
    assert judged(Shelved({}, away=True), False, strict=True) is FRESH
    assert judged(Shelved({}, away=True), True) is REDELIVERED


def test_a_ledger_that_was_away_proves_nothing_of_what_came_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The marked copy of a message may start without a claim, while the message comes again."""
    monkeypatch.setattr("celery_fair.worker.away._RETRY", 0.0)
    monkeypatch.setattr("celery_fair.worker.away._PATIENCE", 0)
    ledger = Shelved({}, away=True)
    claims = Claims(ledger, 0.0)

    def judge(name: str) -> Delivery:
        headers = {LEDGER: fingerprint(URL), PUBLISHED: time.time() - 1}
        message = shelf().put(name, **headers)[0]
        return claims.judge(Request(message, non_repeatable()))[0]

    assert judge("a") is UNKNOWN
    assert not ledger.renewed
    ledger.away = False
    assert [judge("b"), judge("c")] == [FRESH, FRESH]
    assert ledger.renewed == 1


def test_a_ledgers_name_has_no_password_and_no_options() -> None:
    assert fingerprint("redis://u:p@h/1?a=b") == fingerprint("redis://h/1")
    assert len({fingerprint(f"{s}://h/{n}") for s in ("redis", "rediss") for n in (1, 2)}) == 4


@pytest.mark.parametrize(
    ("one", "another"),
    [
        ("unix:///run/redis.sock?db=1", "unix:///run/redis.sock?db=2"),
        ("redis://h?timeout=1&db=1", "redis://h?timeout=1&db=2"),
        ("postgresql+psycopg://u@/d?host=/run/a", "postgresql+psycopg://u@/d?host=/run/b"),
        ("postgresql+psycopg://h/d?options=-csearch_path%3Da", "postgresql+psycopg://h/d"),
        ("redis://a/1?client_name=me@work", "redis://b/1?client_name=me@work"),
    ],
)
def test_ledgers_in_two_places_have_two_names(one: str, another: str) -> None:
    assert fingerprint(one) != fingerprint(another)


@pytest.mark.parametrize(
    ("guarded", "url"),
    [
        ("redis://:p@w@h/1?password=p", "redis://h/1"),
        ("postgresql+psycopg://u:p/w?@h/d?connect_timeout=2", "postgresql+psycopg://h/d"),
        ("unix://u:p@/run/redis.sock?db=1", "unix:///run/redis.sock?db=1"),
    ],
)
def test_and_a_password_is_no_part_of_it(guarded: str, url: str) -> None:
    assert fingerprint(guarded) == fingerprint(url)


def test_a_file_is_another_in_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = fingerprint("sqlite:///ledger.db")
    monkeypatch.chdir(tmp_path)
    assert fingerprint("sqlite:///ledger.db") != here
    assert fingerprint("sqlite:///ledger.db") == fingerprint(f"sqlite:///{tmp_path}/ledger.db")
