"""The clock of leases."""

from __future__ import annotations

import sys
import time

import pytest

from celery_fair.clock import elapsed


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a clock for that")
def test_it_goes_on_while_the_machine_sleeps() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= elapsed() <= time.clock_gettime(time.CLOCK_BOOTTIME)


def test_it_never_goes_back() -> None:
    readings = [elapsed() for _ in range(100)]
    assert readings == sorted(readings)
