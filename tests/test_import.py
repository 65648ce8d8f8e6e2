"""What an app that publishes, and is no worker, imports for this library."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

APP = """
import json, sys
from celery import Celery
app = Celery("shop", broker="memory://")
app.conf.fair_queues = {"bulk": {"quantum": 4}}
app.finalize(auto=True)
app.amqp.queues
before = set(sys.modules)
"""
INSTALLED = "from celery_fair import NonRepeatableTask, install\ninstall(app)\n"
TOLD = "print(json.dumps(sorted(set(sys.modules) - before)))\n"


def imported(source: str) -> list[str]:
    command = [sys.executable, "-c", f"{APP}{source}{TOLD}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert isinstance(found, list)
    return found


def test_an_app_is_not_kept_waiting_for_what_only_workers_need() -> None:
    found = imported(INSTALLED)
    assert "celery_fair.bootstrap" in found
    assert not [name for name in found if name.startswith("celery_fair.worker")]
    assert not [name for name in found if name.startswith(("celery.", "kombu.", "amqp"))]


def test_with_celerys_commands_ours_are_known() -> None:
    """As ``celery inspect`` does, which imports the app then."""
    first = "import celery.worker.control\n"
    last = "from celery.worker.control import Panel\nassert 'fair_status' in Panel.meta\n"
    assert "celery_fair.worker.control" in imported(f"{first}{INSTALLED}{last}")


@pytest.mark.parametrize("by", ["name", "class"])
def test_a_step_by_its_name_is_the_step(by: str) -> None:
    step = "FairConsumerStep" if by == "class" else "'celery_fair.worker.step:FairConsumerStep'"
    imported(
        "from celery_fair import FairConsumerStep\n"
        "from celery_fair.worker.step import is_fair\n"
        "assert not is_fair(app)\n"
        f"app.steps['consumer'].add({step})\n"
        "assert is_fair(app)\n"
    )
