"""The example project does what its README says, on a broker of the suite's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.brokers import Space
from tests.preloaded import PreloadedCelery, run_celery
from tests.processes import ROOT, Process
from tests.waiting import wait_equal, wait_for

QUEUES = ("interactive", "reports", "bulk")


class Shop:
    """A copy of the example, used as its README uses it."""

    def __init__(self, folder: Path, broker_url: str) -> None:
        self.folder = folder
        self.environment = {**os.environ, "SHOP_BROKER": broker_url}

    def run(self, *command: str) -> str:
        """Run a Python command in the folder; return what it prints."""
        done = subprocess.run(
            [sys.executable, *command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def watch(self, seconds: int) -> dict[str, float]:
        """The percentages that `watch.py` sums up."""
        heads, *_, whole, _waiting = self.run("watch.py", "--seconds", f"{seconds}").splitlines()
        assert tuple(heads.split()) == QUEUES
        percents = [float(word) for word in whole.split() if word[0].isdigit()]
        return dict(zip(QUEUES, percents, strict=True))


@pytest.fixture
def shop(space: Space, tmp_path: Path) -> Shop:
    folder = tmp_path / "example_project"
    shutil.copytree(ROOT / folder.name, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return Shop(folder, space.url)


@pytest.fixture
def work(shop: Shop, space: Space) -> Iterator[Callable[[str, int], Process]]:
    """Publishes a backlog, and starts the worker of an app; returns when it consumes."""
    with ExitStack() as stack:

        def start(app: str, messages: int) -> Process:
            shop.run("publish.py", "--messages", f"{messages}")
            wait_equal(space.ready, dict.fromkeys(QUEUES, messages))
            arguments = ["-A", app, "worker", "--concurrency", "2"]
            log = shop.folder / "worker.log"
            worker = PreloadedCelery(arguments, log, shop.environment, cwd=shop.folder)
            stack.callback(worker.end)
            wait_for(lambda: space.ready() != dict.fromkeys(QUEUES, messages), 40, worker.log)
            return worker

        yield start


def test_as_it_was(shop: Shop, work: Callable[[str, int], Process]) -> None:
    work("shop", 1000)
    shares = shop.watch(4)
    assert all(share == pytest.approx(100 / 3, abs=10) for share in shares.values()), shares


def test_fair(shop: Shop, work: Callable[[str, int], Process]) -> None:
    work("shop.fair", 1500)
    shares = shop.watch(4)
    assert shares["interactive"] == pytest.approx(100 * 40 / 54, abs=3), shares
    assert shares["reports"] == pytest.approx(100 * 10 / 54, abs=3), shares
    assert shares["bulk"] == pytest.approx(100 * 4 / 54, abs=3), shares

    told = run_celery(["-A", "shop", "inspect", "stats"], shop.folder, shop.environment)
    assert '"fair": {' in told.stdout, told.stderr


def test_worker_finishes_everything(
    shop: Shop, space: Space, work: Callable[[str, int], Process]
) -> None:
    worker = work("shop.fair", 20)
    wait_for(lambda: not space.ready(), 40, worker.log)
    assert worker.running
