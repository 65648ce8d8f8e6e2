"""A fault, read from its file; which rows have one."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.matrix import FAULTS as GUARANTEED
from tests.groups.faults import FAULTS as OF_GROUPS

__all__ = ["FOLDER", "ROWS", "Edit", "Fault", "FaultError", "read", "rows_without"]

FOLDER = Path(__file__).parent
_COUNTS = {"A": 8, "B": 6, "C": 3, "D": 5, "E": 10, "F": 8, "G": 7}
# The rows of what the system must do, by letter and number, as CONTRIBUTING.md lists them.
ROWS = tuple(f"{letter}{n}" for letter, count in _COUNTS.items() for n in range(1, count + 1))
_KNOWN = {
    *ROWS,
    *(f"guarantees: {name}" for name in GUARANTEED),
    *(f"groups: {fault.name}" for fault in OF_GROUPS),
    "commands",
    "eventlog",
    "pipeline",
    "demo",
    "targets",
    "web",
}


class FaultError(Exception):
    """A fault that cannot be tried, and why."""


@dataclass(frozen=True)
class Edit:
    """One change of one file: what stands there, exactly once, and what is to."""

    file: str
    find: str
    replace: str


@dataclass(frozen=True)
class Fault:
    """One fault: what is wrong, whose promise it breaks, where, and what must notice."""

    name: str
    rows: tuple[str, ...]
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]

    def check(self, root: Path) -> None:
        """Raise `FaultError` if it does not fit the tree."""
        for trouble in self._troubles(root):
            raise FaultError(f"{self.name}: {trouble}")

    def _troubles(self, root: Path) -> Iterator[str]:
        yield from (f"there is no row {row!r}" for row in self.rows if row not in _KNOWN)
        for edit in self.edits:
            text = (root / edit.file).read_text() if (root / edit.file).is_file() else ""
            if text.count(edit.find) != 1:
                yield f"{edit.file} has {text.count(edit.find)} places that read {edit.find!r}"
            if edit.find == edit.replace:
                yield f"changes nothing in {edit.file}"
        for test in self.tests:
            if not (root / test.split("::")[0]).exists():
                yield f"its test {test} does not exist"


def read(paths: Iterable[Path] = ()) -> Iterator[Fault]:
    """Yield the faults of these files; of all, if none is named."""
    for path in sorted(paths) or sorted(FOLDER.glob("*.toml")):
        try:
            tables = tomllib.loads(path.read_text()).get("fault", [])
        except (OSError, ValueError) as exc:
            raise FaultError(f"{path} is no list of faults: {exc}") from exc
        for table in tables:
            try:
                yield _fault(table)
            except (KeyError, TypeError) as exc:
                raise FaultError(f"{path.name}: {table.get('name', table)} lacks {exc}") from exc


def _fault(table: dict[str, Any]) -> Fault:
    edits = table.get("edit") or [{key: table[key] for key in ("file", "find", "replace")}]
    return Fault(
        table["name"],
        tuple(table["rows"]),
        tuple(Edit(**edit) for edit in edits),
        tuple(table["tests"]),
    )


def rows_without(faults: Iterable[Fault]) -> list[str]:
    """Return the rows whose promise no fault breaks."""
    broken = {row for fault in faults for row in fault.rows}
    return [row for row in ROWS if row not in broken]
