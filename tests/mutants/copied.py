"""A copy of the tree, with a fault in it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from tests.mutants.fault import Fault
from tests.processes import ROOT

__all__ = ["Copied"]

# Python takes a compiled file for current if its source's time and size are what they were.
_times = count(1_000_000_000)


class Copied:
    """What git knows of the tree, or would, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, folder / name)

    @property
    def environment(self) -> dict[str, str]:
        """Of processes that are to import the copy."""
        return os.environ | {"PYTHONPATH": str(self.folder)}

    @contextmanager
    def faulty(self, fault: Fault) -> Iterator[None]:
        """Have the fault for the time of the block."""
        changed: dict[Path, str] = {}
        try:
            for edit in fault.edits:
                path = self.folder / edit.file
                text = path.read_text()
                changed.setdefault(path, text)
                _write(path, text.replace(edit.find, edit.replace))
            yield
        finally:
            for path, text in changed.items():
                _write(path, text)


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    time = next(_times)
    os.utime(path, (time, time))
