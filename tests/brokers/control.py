"""The Python end of `control.escript`."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from itertools import count
from pathlib import Path

from tests.processes import Process

SCRIPT = Path(__file__).with_name("control.escript")
_names = count()


class ControlError(RuntimeError):
    """The node refused a command, or could not be reached."""


class Control:
    """Commands to a RabbitMQ node over one lasting connection."""

    def __init__(self, escript: Path, node: str, folder: Path, env: Mapping[str, str]) -> None:
        cookie = (folder / ".erlang.cookie").read_text()
        self._process = Process(
            [escript, SCRIPT, f"control{next(_names)}@localhost", node, cookie],
            folder / "control.log",
            env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __call__(self, command: str, *args: str) -> str:
        self._process.stdin.write(" ".join((command, *args)).encode() + b"\n")
        self._process.stdin.flush()
        status, _, text = self._process.stdout.readline().decode().strip("\n").partition(" ")
        if status != "ok":
            raise ControlError(f"{command} {args}: {text or self._process.log()}")
        return text

    def end(self) -> None:
        self._process.end()
