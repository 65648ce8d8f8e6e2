"""The list of faults that `make mutants` tries: it fits the tree, and each row has one."""

from __future__ import annotations

import pytest

from tests.mutants.fault import Fault, read
from tests.processes import ROOT

FAULTS = list(read())


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fits(fault: Fault) -> None:
    fault.check(ROOT)


def test_names_are_unique() -> None:
    names = [fault.name for fault in FAULTS]

    assert sorted(set(names)) == sorted(names)
