"""One RabbitMQ for all the test runs of a command, instead of one for each process of each run.

    python -m tests.brokers.lent make test-current test-fairness

A node takes five seconds of a processor to start. The command's runs find it by `VARIABLE` in their
environment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

from tests.brokers.rabbitmq import RabbitMQ

__all__ = ["VARIABLE", "LentRabbitMQ"]

VARIABLE = "CELERY_FAIR_TEST_RABBITMQ"
_PORTS = ("port", "_dist_port", "_epmd_port")


class LentRabbitMQ(RabbitMQ):
    """The node that `VARIABLE` tells of, to which others have a right too."""

    def __init__(self) -> None:
        lent = json.loads(os.environ[VARIABLE])
        self.folder = Path(lent["folder"])
        for name in _PORTS:
            setattr(self, name, lent[name])
        self._process = None
        self._vhosts = count()
        self._empty = []
        self._make_control(lent["escript"])

    def start(self) -> None:
        """It runs."""

    def wait_ready(self, timeout: float = 60) -> None:
        """It is."""

    def end(self) -> None:
        """Whoever lends it sees to that."""
        self.control.end()


def lend(command: list[str]) -> int:
    """Run the command, and a RabbitMQ meanwhile; return the command's exit code."""
    try:
        server = RabbitMQ()
    except pytest.skip.Exception:  # the command's runs say so themselves
        return _run(command)
    try:
        server.start()
        server.wait_ready()
        lent = {name: getattr(server, name) for name in _PORTS}
        lent |= {"folder": str(server.folder), "escript": str(server.escript)}
        return _run(command, **{VARIABLE: json.dumps(lent)})
    finally:
        server.end()


def _run(command: list[str], **environment: str) -> int:
    return subprocess.run(command, check=False, env=os.environ | environment).returncode


if __name__ == "__main__":
    sys.exit(lend(sys.argv[1:]))
