"""Ends what a test run started, however the run itself ends.

Run as a script with a folder as its argument and its standard input on a pipe
from the test process. It reads `+<process group>` and `-<process group>`
lines; at the end of input, which also comes when the test process is killed,
it kills the groups that are left and removes the folder. It sits in a session
of its own so that a Ctrl-C at the terminal, which goes to the whole
foreground group, does not end it first.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Iterable


def remaining(lines: Iterable[str]) -> set[int]:
    groups: set[int] = set()
    for line in lines:
        change = groups.add if line[0] == "+" else groups.discard
        change(int(line[1:]))
    return groups


def kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for orphan in remaining(sys.stdin):
        kill_group(orphan)
    shutil.rmtree(sys.argv[1], ignore_errors=True)
