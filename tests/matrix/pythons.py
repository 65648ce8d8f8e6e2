"""Environments with the Celerys of the matrix: the one that runs this, and tox's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.matrix.cell import CELERYS
from tests.processes import ROOT

TELL = "import celery; print(celery.__version__)"


def pythons() -> dict[str, tuple[str, str]]:
    """By Celery, as `CELERYS` names it, its full version and the Python that has it."""
    found: dict[str, tuple[str, str]] = {}
    for python in _candidates():
        told = subprocess.run([python, "-c", TELL], capture_output=True, text=True, check=False)
        version = told.stdout.strip()
        minor = version.rpartition(".")[0]
        if minor in CELERYS:
            found.setdefault(minor, (version, python))
    return found


def _candidates() -> Iterator[str]:
    yield sys.executable
    for environment in ("celery55", "celery56", "celery57"):
        python = ROOT / ".tox" / environment / "bin" / "python"
        if Path(python).exists():
            yield str(python)
