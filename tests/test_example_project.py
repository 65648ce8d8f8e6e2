"""The example project does what its README says, on a broker of the suite's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.brokers import Space
from tests.preloaded import PreloadedCelery, run_celery
from tests.processes import ROOT, Process
from tests.waiting import wait_for

pytestmark = [pytest.mark.either_broker, pytest.mark.timeout(400)]

PUBLISHES_WITHIN = 180
"""Seconds; it takes two alone, and half a minute and more beside what else a machine may do."""
QUEUES = ("interactive", "reports", "bulk")


class Shop:
    """A copy of the example, used as its README uses it."""

    def __init__(self, folder: Path, broker_url: str) -> None:
        self.folder = folder
        self.environment = {**os.environ, "SHOP_BROKER": broker_url}

    def start(self, *command: str) -> subprocess.Popen[str]:
        """Start a Python command in the folder."""
        return subprocess.Popen(
            [sys.executable, *command],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
        )

    def publish(self, messages: int, script: str = "publish.py") -> None:
        """Publish so many to each queue, or of the tenant who has most."""
        publishing = self.start(script, "--messages", f"{messages}")
        printed, _ = publishing.communicate(timeout=PUBLISHES_WITHIN)
        assert publishing.returncode == 0, printed

    @contextmanager
    def watched(self) -> Iterator[dict[str, float]]:
        """The percentages that `watch.py` sums up, of what starts in the context.

        It ends when one of the queues is empty.
        """
        percents: dict[str, float] = {}
        with self.start("watch.py", "--seconds", "90") as watching:
            try:
                assert watching.stdout is not None
                assert tuple(watching.stdout.readline().split()) == QUEUES
                yield percents
                *_, whole, _waiting = watching.stdout.read().splitlines()
            finally:
                watching.kill()
        found = [float(word) for word in whole.split() if word[0].isdigit()]
        percents |= dict(zip(QUEUES, found, strict=True))


@pytest.fixture
def shop(space: Space, tmp_path: Path) -> Shop:
    folder = tmp_path / "example_project"
    shutil.copytree(ROOT / folder.name, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return Shop(folder, space.url)


@pytest.fixture
def work(shop: Shop, space: Space) -> Iterator[Callable[[str], Process]]:
    """Starts the worker of an app; returns when it consumes."""
    with ExitStack() as stack:

        def start(app: str) -> Process:
            published = space.ready()
            arguments = ["-A", app, "worker", "--concurrency", "2"]
            log = shop.folder / "worker.log"
            worker = PreloadedCelery(arguments, log, shop.environment, cwd=shop.folder)
            stack.callback(worker.end)
            wait_for(lambda: space.ready() != published, 40, worker.log)
            return worker

        yield start


@pytest.mark.wide
def test_as_it_was(shop: Shop, work: Callable[[str], Process]) -> None:
    shop.publish(400)
    with shop.watched() as shares:
        work("shop")
    print(shares)
    assert all(share == pytest.approx(100 / 3, abs=6) for share in shares.values()), shares


def test_fair(shop: Shop, work: Callable[[str], Process]) -> None:
    shop.publish(1000)
    with shop.watched() as shares:
        work("shop.fair")
    print(shares)
    assert shares["interactive"] == pytest.approx(100 * 40 / 54, abs=3), shares
    assert shares["reports"] == pytest.approx(100 * 10 / 54, abs=3), shares
    assert shares["bulk"] == pytest.approx(100 * 4 / 54, abs=3), shares

    inspect = ["-A", "shop", "inspect", "stats", "--timeout", "10"]
    told = run_celery(inspect, shop.folder, shop.environment)
    assert '"fair": {' in told.stdout, told.stderr


@pytest.mark.wide
def test_targets(shop: Shop, work: Callable[[str], Process]) -> None:
    """What has a target goes first; of the others each has its floor."""
    shop.publish(1000)
    with shop.watched() as shares:
        worker = work("shop.targets")
    print(shares)
    assert shares["interactive"] > 90, shares
    assert "Messages of queue interactive do not say when they were published" in worker.log()
    status = ["-A", "shop.targets", "fair", "status", "--timeout", "10"]
    told = run_celery(status, shop.folder, shop.environment)
    assert "95% < 500ms" in told.stdout, told.stdout + told.stderr


@pytest.mark.wide
def test_worker_finishes_everything(
    shop: Shop, space: Space, work: Callable[[str], Process]
) -> None:
    shop.publish(20)
    worker = work("shop.fair")
    wait_for(lambda: not space.ready(), 40, worker.log)
    assert worker.running


@pytest.mark.parametrize("space", ["redis"], indirect=True)
def test_tenants(shop: Shop, work: Callable[[str], Process]) -> None:
    """Whoever came behind all of another's messages is done long before that other is."""
    tasks = shop.folder / "shop" / "tasks.py"  # or acme might be done before anybody has looked
    tasks.write_text(tasks.read_text().replace("WORK = 0.01", "WORK = 0.1"))
    shop.publish(1500, "publish_tenants.py")

    def keys() -> dict[str, list[str]]:
        words = ["-A", "shop.tenants", "fair", "keys", "list", "bulk"]
        asked = run_celery(words, shop.folder, shop.environment)
        rows = [line.split() for line in asked.stdout.splitlines()]
        return {name: row for name, *row in rows if name in {"acme", "globex"}}

    assert {name: row[5] for name, row in keys().items()} == {"acme": "1499", "globex": "10"}
    work("shop.tenants")
    wait_for(lambda: [*keys()] == ["acme"], 40)
    assert int(keys()["acme"][5]) > 100
