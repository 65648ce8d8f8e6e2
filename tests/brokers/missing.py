"""What to do about a broker that is not installed: skip here, fail in CI."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest


def program(name: str, *places: str, package: str) -> Path:
    """Find a broker's program, or skip the test (fail it when CI=true)."""
    found = next(filter(None, map(shutil.which, (*places, name))), None)
    if found:
        return Path(found)
    reason = f"{name} is not installed (on Debian: apt-get install {package})"
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
