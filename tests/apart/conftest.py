"""These may take their time."""

from __future__ import annotations

from pathlib import Path

import pytest

TIMEOUT = 3000


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(TIMEOUT))
            item.add_marker(pytest.mark.newest)
