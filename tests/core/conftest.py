"""These only compute, and so wait for the processor behind all that runs beside them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("few", max_examples=25, derandomize=True, deadline=None)
settings.register_profile("many", max_examples=300, deadline=None)
settings.load_profile(os.environ.get("CELERY_FAIR_TEST_EXAMPLES", "few"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Thousands of drawn examples take seconds alone, and minutes where others go first."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(400))
