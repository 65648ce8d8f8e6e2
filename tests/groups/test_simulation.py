"""Ten thousand rebalances: never two owners, and everything is assigned once all is quiet."""

from __future__ import annotations

import pytest

from tests.core.group_world import trouble

SIZES = [(3, 6, 6500), (10, 5, 2500), (10, 60, 1000), (30, 200, 50), (100, 1000, 5)]


@pytest.mark.newest
@pytest.mark.parametrize(
    ("members", "partitions", "rebalances"),
    [pytest.param(*size, marks=pytest.mark.wide if size[2] > 2000 else ()) for size in SIZES],
)
def test_random_trouble(members: int, partitions: int, rebalances: int) -> None:
    assert trouble(members, partitions, rebalances).plans >= rebalances


def test_sizes() -> None:
    assert sum(rebalances for *_, rebalances in SIZES) >= 10_000
