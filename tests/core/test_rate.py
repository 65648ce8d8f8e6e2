"""What is a rate, and what is not."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest

from celery_fair.core.token_bucket import parse_rate

GOOD = {
    "10/s": 10,
    "600/m": 10,
    "5/h": 5 / 3600,
    "0.5/s": 0.5,
    "1e3/s": 1000,
    " 10 / s ": 10,
    "10": 10,
    10: 10,
    0.25: 0.25,
}
BAD = [
    *("", "/", "/s", "10/", "10/d", "10/S", "10/s/s", "s/10", "ten/s", "10 s", "10/ms"),
    *("0/s", "-1/s", "nan/s", "inf/m", "1e400/s", "1e-323/h"),
    *(0, -1, math.nan, math.inf, 10**400, True, False, None),
    *(b"10", Decimal(10), [10], (10, "s"), {"rate": 10}, 1j),
]


@pytest.mark.parametrize("value", GOOD, ids=repr)
def test_rates(value: object) -> None:
    assert parse_rate(value) == pytest.approx(GOOD[value])  # type: ignore[index]


@pytest.mark.parametrize("value", BAD, ids=lambda v: repr(v)[:20])
def test_no_rates(value: object) -> None:
    with pytest.raises(ValueError, match="a rate is a number per second above zero") as refused:
        parse_rate(value)
    assert repr(value) in str(refused.value)
