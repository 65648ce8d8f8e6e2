"""A program that is run to its end while memory is watched: of all that this process has started.

So that of a cluster counts, which was started before.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from threading import Event, Thread
from time import monotonic
from typing import Any, NamedTuple

import psutil

__all__ = ["Ran", "python", "run"]

EVERY = 0.1
ROOT = Path(__file__).resolve().parents[2]


class Ran(NamedTuple):
    """What came of it.

    Attributes:
        said: the last line that it printed, if that is JSON.
        seconds: from its start to its end.
        memory: bytes that the processes had at once, at the most; what they share counts for each.
    """

    said: dict[str, Any]
    seconds: float
    memory: int


def run(words: Sequence[str], limit: float, env: Mapping[str, str] | None = None) -> Ran:
    """Run `words`, at most for `limit` seconds.

    Raises:
        RuntimeError: it failed, or took longer.
    """
    with TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        began, ended = monotonic(), Event()
        process = subprocess.Popen(words, stdout=out, stderr=err, cwd=ROOT, env=env)
        peak = [0]
        watch = Thread(target=_watch, args=(ended, peak))
        watch.start()
        try:
            status: int | str = process.wait(limit)
        except subprocess.TimeoutExpired:
            status = f"ended after {limit:g} s"
        finally:
            ended.set()
            watch.join()
            _end(process)
        seconds = monotonic() - began
        if status:
            err.seek(0)
            raise RuntimeError(f"{' '.join(words)}: {status}\n{err.read()[-3000:]}")
        out.seek(0)
        return Ran(_json(out.read()), seconds, peak[0])


def _watch(ended: Event, peak: list[int]) -> None:
    while not ended.wait(EVERY):
        peak[0] = max(peak[0], _resident())


def _resident() -> int:
    total = 0
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            total += process.memory_info().rss
    return total


def _end(process: "subprocess.Popen[Any]") -> None:
    """See to it that nothing of the program is left."""
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                child.kill()
    process.kill()
    process.wait()


def _json(printed: str) -> dict[str, Any]:
    lines = printed.strip().splitlines()
    with suppress(ValueError, IndexError):
        said = json.loads(lines[-1])
        return said if isinstance(said, dict) else {}
    return {}


def python(*words: object) -> list[str]:
    """Return the words that run a module of this Python."""
    return [sys.executable, "-m", *map(str, words)]
