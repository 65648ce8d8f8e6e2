"""The workflow for hosted runners: that it is one, and calls what `make` has."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from tests.processes import ROOT

yaml = pytest.importorskip("yaml")

WORKFLOW = ROOT / ".github/workflows/ci.yml"


@pytest.fixture(scope="module")
def jobs() -> dict[str, Any]:
    found = yaml.safe_load(WORKFLOW.read_text())["jobs"]
    assert isinstance(found, dict)
    return found


def calls(jobs: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Each call of make, with what the job's matrix makes of it: its target and its variables."""
    for job in jobs.values():
        matrix = job.get("strategy", {}).get("matrix", {})
        for values in product(*matrix.values()):
            for step in job["steps"]:
                run = step.get("run", "")
                for name, value in zip(matrix, values, strict=True):
                    run = run.replace(f"${{{{ matrix.{name} }}}}", str(value))
                yield from re.findall(r"^make ([\w-]+)(.*)$", run, re.MULTILINE)


def test_its_targets_are_the_makefiles(jobs: dict[str, Any]) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = {target for target, _ in calls(jobs)}
    assert {"test", "test-celery", "package", "mutants"} <= called
    assert called <= targets


def test_it_tries_the_pythons_and_celerys_that_are_claimed(jobs: dict[str, Any]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    claimed = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert jobs["test"]["strategy"]["matrix"]["python"] == claimed
    releases = {variables for target, variables in calls(jobs) if target == "test-celery"}
    environments = (ROOT / "tox.ini").read_text()
    for number in (55, 56, 57):
        assert f"celery{number}: celery>=" in environments
        assert any(f"RELEASE=celery{number} " in each for each in releases)
