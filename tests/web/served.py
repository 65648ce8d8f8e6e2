"""The page, served by the command."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.apps.settings import AppSettings
from tests.brokers import Space
from tests.processes import ROOT, Process
from tests.waiting import wait_for
from tests.workers import DEFAULT_APP


@contextmanager
def serving(space: Space, conf: Mapping[str, Any], folder: Path, *options: str) -> Iterator[str]:
    """`celery -A … fair web`, until the context ends; its address."""
    settings = AppSettings(broker_url=space.url, records=os.devnull, conf=dict(conf))
    command = [sys.executable, "-m", "celery", "-A", DEFAULT_APP, "fair", "web", "--port", "0"]
    process = Process(
        [*command, *options],
        folder / "web.log",
        os.environ | {"PYTHONPATH": str(ROOT)} | settings.environment(),
    )
    try:
        found = wait_for(lambda: re.search(r"http://\S+", process.log()), 60, process.log)
        yield found[0]
        process.send(15)
        assert process.wait() == 0, process.log()
        assert "Traceback" not in process.log()
    finally:
        process.end()
