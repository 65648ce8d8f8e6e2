"""Keyed queues under kills, for a little while; `python -m tests.kills` goes on for longer."""

from __future__ import annotations

import pytest

from tests.apps.recorder import Record
from tests.kills.__main__ import besiege
from tests.kills.caps import most_at_once
from tests.kills.siege import CASES, Case
from tests.kills.tables import row, table

KILLS, SEED, BACKLOG = 20, 1, 200


def record(at: int, key: str, number: int, pid: int = 1) -> Record:
    return Record(at, 0.0, "jobs", f"late:{key}:{number}", number, pid, False)


def test_tasks_run_at_once_until_they_end_or_are_killed() -> None:
    started = [
        record(1, "a/1", 1),
        record(2, "a/2", 2, pid=2),
        record(4, "a", 3),
        record(5, "b", 4),
    ]
    assert most_at_once(started, [], {}) == {"a": 1, "b": 1}  # nobody knows for how long
    assert most_at_once(started, [], {1: 9, 2: 3}) == {"a": 2, "b": 1}
    assert most_at_once(started, [], {1: 9, 2: 9}) == {"a": 3, "b": 1}
    assert most_at_once(started, [record(3, "a/1", 1), record(3, "a/2", 2, pid=2)], {1: 9}) == {
        "a": 2,
        "b": 1,
    }


def test_a_task_that_starts_again_ends_where_it_started() -> None:
    started = [record(1, "a", 1), record(4, "a", 1, pid=2), record(4, "a", 2, pid=3)]
    finished = [record(5, "a", 1, pid=2), record(5, "a", 2, pid=3)]
    assert most_at_once(started, finished, {1: 3}) == {"a": 2}
    assert most_at_once(started, finished, {1: 6}) == {"a": 3}


@pytest.mark.wide
@pytest.mark.newest
@pytest.mark.parametrize("case", CASES, ids=str)
def test_whoever_is_killed(case: Case) -> None:
    """Nothing is lost, stranded or doubled; no cap is exceeded; no key and no lane waits long."""
    found = besiege(case, KILLS, SEED, backlog=BACKLOG)
    print(table([row(str(case), found)]))
    assert not found.violations, "\n".join(found.violations)
    assert found.kills.total() == KILLS
