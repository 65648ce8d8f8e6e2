"""The tasks' own account of what they did: one line for each start or finish.

A line is one `write` on a descriptor opened with O_APPEND, so lines of many
processes interleave whole, and what a killed process wrote stays written.
"""

from __future__ import annotations

import os
import time
from typing import NamedTuple


class Record(NamedTuple):
    monotonic_ns: int
    """CLOCK_MONOTONIC: one clock for all processes of the machine."""
    wall: float
    queue: str
    id: str
    seq: int
    pid: int
    redelivered: bool

    def line(self) -> bytes:
        fields = (str(field).encode("unicode_escape") for field in self)  # an id may be any text
        return b"\t".join(fields) + b"\n"

    @classmethod
    def parse(cls, line: str) -> Record:
        ns, wall, queue, task_id, seq, pid, redelivered = line.split("\t")
        return cls(int(ns), float(wall), queue, task_id, int(seq), int(pid), redelivered == "True")


class Recorder:
    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def __call__(self, queue: str, task_id: str, seq: int, redelivered: bool = False) -> None:
        now, wall = time.monotonic_ns(), time.time()
        record = Record(now, wall, queue, task_id, seq, os.getpid(), redelivered)
        os.write(self._file, record.line())
