"""Every row of the documentation's table of faults has its tests."""

from __future__ import annotations

from importlib import import_module

import pytest

from tests.groups.faults import FAULTS, Fault


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_has_tests(fault: Fault) -> None:
    assert fault.tests
    for path in fault.tests:
        module, _, name = path.rpartition(".")
        assert callable(getattr(import_module(f"tests.{module}"), name))
