"""What others called a queue or a task cannot move the cursor of whoever reads a table."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from celery_fair.cli.drawing import DrawnScreen
from celery_fair.cli.options import table
from celery_fair.cli.screen import Table, aligned

HOSTILE = "a\x1b[2J\r\n\x07\u202eb"
SHOWN = r"a\x1b[2J\r\n\x07\u202eb"


def test_tables_of_commands() -> None:
    head, line = table(["queue", "n"], [[HOSTILE, 7]], "none")
    assert "queue" in head
    assert line == f"{SHOWN}  7"
    assert aligned([["queue", "n"], [SHOWN, "é"]])[1] == f"{SHOWN}  é"


def test_wide_characters() -> None:
    """Each takes two columns of a terminal, and an accent of its own takes none."""
    head, *lines = aligned([["queue", "n"], ["队列", "1"], ["e\u0301te\u0301", "2"]])
    assert head == "queue  n"
    assert lines == ["队列   1", "e\u0301te\u0301    2"]


def test_tables_that_are_drawn() -> None:
    text = StringIO()
    screen = DrawnScreen(Console(file=text, width=100, color_system=None))
    screen.show(Table([["queue", "n"], [HOSTILE, "7"]]))
    assert SHOWN in text.getvalue()
    assert "\x1b" not in text.getvalue()
