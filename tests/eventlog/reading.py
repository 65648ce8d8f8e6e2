"""Reading a log as plainly as can be."""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any

from celery_fair.eventlog.log_file import OPEN

Record = dict[str, Any]


def records(folder: Path, kind: str = "") -> list[Record]:
    """Whatever is there, in open files too; every line must be whole.

    Of an open file's last one a reader may see the first half: a write that crosses a page.
    """
    found = [json.loads(line) for line in _lines(folder) if line]
    return [record for record in found if not kind or record["kind"] == kind]


def _lines(folder: Path) -> list[str]:
    while True:
        with suppress(FileNotFoundError):  # sealed since it was found: under its new name now
            return [
                line
                for path in sorted(folder.rglob("*.jsonl"))
                for line in _whole(path).splitlines()
            ]


def _whole(path: Path) -> str:
    text = path.read_text()
    return text[: text.rfind("\n") + 1] if path.name.startswith(OPEN) else text


def processes(folder: Path) -> dict[tuple[str, int, str], list[Record]]:
    """The records of each process, by their number; last, what others say of its end."""
    by_process = defaultdict(list)
    for record in records(folder):
        by_process[record["node"], record["pid"], record["boot"]].append(record)
    return {
        process: sorted(found, key=lambda record: record.get("seq", inf))
        for process, found in by_process.items()
    }


def states(folder: Path) -> dict[tuple[str, int, str], list[str]]:
    """The signs of life of each process."""
    return {
        process: [record["state"] for record in found if record["kind"] == "process"]
        for process, found in processes(folder).items()
    }
