"""Queues that are shared by key are Redis's."""

from __future__ import annotations

import pytest

from tests.brokers import Space
from tests.integration.conftest import gate
from tests.once.conftest import dead_letters

__all__ = ["dead_letters", "gate"]


@pytest.fixture
def space(redis_space: Space) -> Space:
    return redis_space
