"""What is read once for all who ask, and kept."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from celery_fair.web.reads import BusyError, Reads
from tests.waiting import wait_for


class Slow:
    """Reads when it is told to; counts how often it has begun."""

    def __init__(self) -> None:
        self.begun = 0
        self.go = Event()

    def __call__(self) -> str:
        self.begun += 1
        assert self.go.wait(60)
        return "read"


@pytest.fixture
def slow() -> Slow:
    return Slow()


@pytest.fixture
def threads(slow: Slow) -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as threads:
        yield threads
        slow.go.set()


def test_a_result_is_kept_and_the_oldest_is_dropped() -> None:
    reads: Reads[str, int] = Reads(2)
    count = iter(range(9))

    def ask(key: str) -> int:
        return reads.get(key, lambda: next(count))

    assert [ask(key) for key in "abacab"] == [0, 1, 0, 2, 0, 3]


def test_what_is_kept_has_a_weight() -> None:
    reads: Reads[str, int] = Reads(9, 10, float)
    for key, weight in {"a": 4, "b": 6, "c": 1, "d": 99}.items():
        assert reads.get(key, lambda weight=weight: weight) == weight
    assert reads.get("d", lambda: 0) == 99
    assert reads.get("c", lambda: 0) == 0


def test_a_failure_is_not_kept() -> None:
    reads: Reads[str, int] = Reads(9)
    with pytest.raises(ZeroDivisionError):
        reads.get("a", lambda: 1 // 0)
    assert reads.get("a", lambda: 1) == 1


def test_others_are_read_meanwhile_and_the_same_once(
    slow: Slow, threads: ThreadPoolExecutor
) -> None:
    reads: Reads[str, str] = Reads(9)
    asked = [threads.submit(reads.get, "a", slow) for _ in range(3)]
    wait_for(lambda: slow.begun, 60)
    assert reads.get("b", lambda: "other") == "other"
    slow.go.set()
    assert [each.result(60) for each in asked] == ["read"] * 3
    assert slow.begun == 1


def test_only_so_many_are_begun(slow: Slow, threads: ThreadPoolExecutor) -> None:
    """Who asks for one of those, or for what is kept, is answered all the same."""
    reads: Reads[str, str] = Reads(9, at_once=1, begun=2)
    assert reads.get("kept", lambda: "kept") == "kept"
    asked = [threads.submit(reads.get, "a", slow)]
    wait_for(lambda: slow.begun, 60)
    asked += [threads.submit(reads.get, "b", slow)]
    wait_for(lambda: len(reads._reading) == 2, 60)
    with pytest.raises(BusyError):
        reads.get("c", slow)
    assert reads.get("kept", slow) == "kept"
    assert slow.begun == 1
    slow.go.set()
    assert [each.result(60) for each in asked] == ["read"] * 2
    assert reads.get("c", lambda: "later") == "later"
