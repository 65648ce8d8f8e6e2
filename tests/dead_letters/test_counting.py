"""`dead-letters count`: how many there are, by reason, by task, by hour."""

from __future__ import annotations

import json

from tests.dead_letters.conftest import Box


def test_counts(box: Box) -> None:
    box.put("t1", reason="redelivered", time="2026-05-31T14:59:59+00:00")
    box.put("t2", task="shop.mail", time="2026-05-31T17:00:00+02:00")
    box.put("t3", bare=True)
    outcome = box.run("count", "--json")
    assert (outcome.exit_code, json.loads(outcome.stdout)) == (
        0,
        {
            "count": 3,
            "reason": {"": 1, "malformed": 1, "redelivered": 1},
            "task": {"": 1, "shop.charge": 1, "shop.mail": 1},
            "hour": {"": 1, "2026-05-31 14:00": 1, "2026-05-31 15:00": 1},
        },
    )
    assert sorted(box.ids())[:2] == ["t1", "t2"]


def test_counts_of_what_filters_fit(box: Box) -> None:
    for number in range(3):
        box.put(f"t{number}", task=f"shop.task{number}")
    box.put("other", reason="redelivered")
    lines = box.run("count", "--by", "task", "--reason", "malformed").stdout.splitlines()
    assert lines[0] == "3 dead letters"
    assert [line.split() for line in lines[3:]] == [[f"shop.task{each}", "1"] for each in range(3)]
    assert box.run("count", "--reason", "no such").stdout == "No dead letter is like that.\n"
