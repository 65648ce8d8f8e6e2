"""The Python end of `control.escript`."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Mapping
from functools import cached_property
from itertools import count
from pathlib import Path
from threading import Lock

from tests.processes import Process

SCRIPT = Path(__file__).with_name("control.escript")
ANSWERS_WITHIN = 60
"""Seconds."""

_names = count()


class ControlError(RuntimeError):
    """The node refused a command, or could not be reached."""


class Control:
    """Commands to a RabbitMQ node over one lasting connection, made by the first of them.

    Threads take turns.
    """

    def __init__(self, escript: str, node: str, folder: Path, env: Mapping[str, str]) -> None:
        self._escript, self._node, self._folder, self._env = escript, node, folder, env
        self._lock = Lock()

    @cached_property
    def _process(self) -> Process:
        name = f"control{os.getpid()}x{next(_names)}"  # several processes may ask one node
        cookie = (self._folder / ".erlang.cookie").read_text()
        return Process(
            [self._escript, SCRIPT, f"{name}@localhost", self._node, cookie],
            self._folder / f"{name}.log",
            self._env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __call__(self, command: str, *args: str) -> str:
        with self._lock:
            answer = self._ask(" ".join((command, *args)))
        status, _, text = answer.strip("\n").partition(" ")
        if status != "ok":
            raise ControlError(f"{command} {args}: {text or self._process.log()}")
        return text

    def _ask(self, line: str) -> str:
        process = self._process
        process.stdin.write(line.encode() + b"\n")
        process.stdin.flush()
        if not select.select([process.stdout], [], [], ANSWERS_WITHIN)[0]:
            raise ControlError(f"{line}: no answer: {process.log()}")
        return process.stdout.readline().decode()

    def end(self) -> None:
        if "_process" in self.__dict__:
            self._process.end()
