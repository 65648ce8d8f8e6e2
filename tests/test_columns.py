"""What others called a queue or a task cannot move the cursor of whoever reads a table."""

from __future__ import annotations

from celery_fair.cli.options import aligned, table

HOSTILE = "a\x1b[2J\r\n\x07\u202eb"
SHOWN = r"a\x1b[2J\r\n\x07\u202eb"


def test_tables_of_commands() -> None:
    head, line = table(["queue", "n"], [[HOSTILE, 7]], "none")
    assert "queue" in head
    assert line == f"{SHOWN}  7"
    assert aligned([["queue", "n"], [SHOWN, "é"]])[1] == f"{SHOWN}  é"
