"""What `make lint` counts as assigned from outside, and what not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT

SCRIPT = ROOT / "scripts" / "foreign_assignments.py"
OWN = """
class Flow:
    place: int

    def __init__(self):
        self.head = None
        self.left, self.right = 0, 0

def link(flow, other):
    flow.head = other
    flow.left, flow.place = 1, 2
    other["key"] = flow
    name = 5
"""
FOREIGN = """
def wire(worker, pool):
    worker.pool = pool
    worker.count += 1
    worker.first, worker.last = 1, 2
    worker.inner.name: str = "x"
"""


@pytest.mark.parametrize(("source", "count"), [(OWN, 0), (FOREIGN, 5)])
def test_counted(tmp_path: Path, source: str, count: int) -> None:
    (tmp_path / "module.py").write_text(source)
    done = subprocess.run(
        [sys.executable, SCRIPT, tmp_path], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines()[-1].startswith(f"{count} foreign assignments")
    assert done.returncode == (count > 0)
    assert done.stdout.count("module.py") == count
