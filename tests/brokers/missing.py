"""What to do about a broker that is not installed: skip here, fail in CI."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest


def program(name: str, *places: str, package: str) -> Path:
    """Find a broker's program, or skip the test (fail it when CI=true)."""
    found = next(filter(None, map(shutil.which, (*places, name))), None)
    return Path(found) if found else _missing(name, package)


def library(path: Path, package: str) -> Path:
    """Find a broker's file, or do the same."""
    return path if path.exists() else _missing(str(path), package)


def _missing(name: str, package: str) -> NoReturn:
    reason = f"{name} is not installed (on Debian: apt-get install {package})"
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
