"""The fault matrix, once: what breaks connections and workers.

`python -m tests.faults` repeats all of it, at random moments.
"""

from __future__ import annotations

import pytest

from tests.faults.matrix import FAULTS, Case
from tests.faults.quick import QUICK, SEED, SHOWN
from tests.faults.scenes import Scenes
from tests.processes import ROOT

pytestmark = pytest.mark.newest


def test_the_quick_cases_are_all_rows_of_the_table_that_are_not_shown_elsewhere() -> None:
    quick = FAULTS.keys() - SHOWN.keys()
    rows = {(name, broker) for name in quick for broker in FAULTS[name].brokers}
    assert {(case.fault, case.broker) for case in QUICK} == rows
    assert SHOWN.keys() < FAULTS.keys()
    assert all((ROOT / path).exists() for path in SHOWN.values())


@pytest.mark.parametrize("case", [case for case in QUICK if not case.mortal], ids=str)
def test_fault(scenes: Scenes, case: Case) -> None:
    for task, account in scenes.execute(case, SEED).items():
        print(f"{task}: {account}")
