"""What the documentation's table of faults says is shown in every run of the tests."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.groups.faults import FAULTS, Fault
from tests.processes import ROOT

pytestmark = pytest.mark.timeout(300)  # collecting imports as much as a run


@pytest.fixture(scope="module")
def collected() -> set[str]:
    """The tests that `make test` runs, each also without its parameters."""
    files = {test.partition("::")[0] for fault in FAULTS for test in fault.tests}
    command = ["-m", "pytest", "--collect-only", "-q", "-m", "not wide", *sorted(files)]
    found = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=True
    )
    nodes = {line for line in found.stdout.splitlines() if "::" in line}
    return nodes | {node.partition("[")[0] for node in nodes}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_is_shown(fault: Fault, collected: set[str]) -> None:
    assert fault.tests
    assert set(fault.tests) <= collected
