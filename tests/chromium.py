"""The browser that tests use, as the system has it."""

from __future__ import annotations

import os
import shutil

import pytest

OPTIONS = ("--headless", "--disable-gpu", "--no-sandbox", "--hide-scrollbars", "--no-first-run")


def browser() -> str:
    """The path of Chromium; without one the test is skipped, and fails in CI."""
    found = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if found is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(
            "Chromium is needed: sudo apt-get install --no-install-recommends chromium"
        )
    return found
