"""Prometheus's own check of what is written for it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.brokers.missing import program


def promtool(*arguments: str | Path) -> None:
    """Run it; what it finds wrong fails the test."""
    tool = program("promtool", package="prometheus")
    done = subprocess.run([tool, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
