"""Waits for owed messages: over in time, or extended."""

from __future__ import annotations

from tests.core.named import Named


def waiting(*keys: str) -> Named:
    """A scheduler whose flows all owe their second message, waited for since 0 until 1."""
    scheduler = Named()
    for key in keys:
        scheduler.offer(scheduler.add(key, 2), 1)
    for key in keys:
        assert scheduler.choose(0, 1) is scheduler[key]
        scheduler.serve(scheduler[key], 1, None, owed=True)
    assert scheduler.choose(0, 1) is None
    return scheduler


def test_a_wait_is_overdue_when_its_patience_is_over() -> None:
    scheduler = waiting("a", "b")
    assert scheduler.overdue(0.9) == []
    assert scheduler.overdue(1) == [scheduler["a"], scheduler["b"]]
    assert scheduler.expire(1) == [scheduler["a"], scheduler["b"]]
    assert scheduler.deadline is None


def test_an_extended_wait_keeps_the_round_open_and_the_credit() -> None:
    scheduler = waiting("a", "b")
    scheduler.extend(scheduler["a"], 2)

    assert scheduler.expire(1) == [scheduler["b"]]
    assert scheduler.choose(1, 1) is None
    assert scheduler.deadline == 2
    scheduler.offer(scheduler["a"], 1)
    assert scheduler.choose(1, 1) is scheduler["a"]
    assert scheduler["a"].deficit == 1
