"""The list of faults that `make mutants` tries: it fits the tree, and each row has one."""

from __future__ import annotations

import pytest

from tests.conftest import COLLECTED
from tests.mutants.fault import read
from tests.processes import ROOT

FAULTS = list(read())


def test_each_fits() -> None:
    for fault in FAULTS:
        fault.check(ROOT)


def test_the_tests_that_are_to_notice_are_there(request: pytest.FixtureRequest) -> None:
    """Single cases are looked for in the files that this run collects."""
    collected = request.config.stash[COLLECTED]
    files = {name.partition("::")[0] for name in collected}
    functions = {name.partition("[")[0] for name in collected}
    wanted = {test for fault in FAULTS for test in fault.tests}
    missing = [
        test
        for test in wanted
        if test.partition("::")[0] in files and test not in collected | functions | files
    ]
    missing += [test for test in wanted if not _is_there(test)]
    assert missing == []


def _is_there(test: str) -> bool:
    """Whether there is such a file, with such a function."""
    file, _, name = test.partition("::")
    path, function = ROOT / file, name.rpartition("::")[2].partition("[")[0]
    if not function:
        return path.exists()
    return path.is_file() and f"def {function}(" in path.read_text()


def test_names_are_unique() -> None:
    names = [fault.name for fault in FAULTS]

    assert sorted(set(names)) == sorted(names)
