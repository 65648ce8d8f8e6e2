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


@pytest.mark.parametrize("name", ["group", "context", "audit", "fairness"])
def test_help_loads_no_spark(name: str) -> None:
    assert "pyspark" not in loaded(f"celery_fair.cli.pipeline.{name}")


def test_a_command_without_spark_says_what_to_install(tmp_path: Path) -> None:
    program = (
        "import runpy, sys; sys.modules['pyspark'] = None;"
        " runpy.run_module('celery_fair', run_name='__main__', alter_sys=True)"
    )
    command = [sys.executable, "-c", program, "pipeline", "waits", str(tmp_path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install celery-fair[spark]" in done.stderr
    assert "Traceback" not in done.stderr
