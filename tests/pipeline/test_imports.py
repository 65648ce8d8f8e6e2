"""Executors have no Celery, and help needs no Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import celery_fair.pipeline

ROOT = Path(celery_fair.pipeline.__file__).parent
MODULES = [
    ".".join(("celery_fair", *path.relative_to(ROOT.parent).with_suffix("").parts))
    for path in sorted(ROOT.rglob("*.py"))
]
PROGRAM = "import sys, importlib\n[importlib.import_module(name) for name in sys.argv[1:]]\n"


def loaded(*modules: str) -> set[str]:
    check = "print(*{name.split('.')[0] for name in sys.modules})"
    command = [sys.executable, "-c", PROGRAM + check, *modules]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def test_pipeline_loads_no_celery() -> None:
    assert len(MODULES) > 20
    found = loaded(*MODULES)
    assert {"celery_fair", "pyspark"} <= found
    assert not {"celery", "kombu", "amqp", "billiard"} & found


@pytest.mark.parametrize("name", ["group", "options", "audit", "fairness", "stream"])
def test_help_loads_no_spark(name: str) -> None:
    assert "pyspark" not in loaded(f"celery_fair.cli.pipeline.{name}")
