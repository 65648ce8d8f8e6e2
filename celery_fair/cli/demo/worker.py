"""The worker process: told what to do, watched, stopped, and what it made at the broker deleted."""

import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO, NamedTuple

from celery_fair.cli.demo.broker import Broker, DemoError
from celery_fair.cli.demo.scenario import Record, Scenario
from celery_fair.cli.interrupt import uninterrupted

ORDER_VARIABLE = "FAIR_DEMO_ORDER"
"""Tells the worker process, as JSON, what `_order` says; no other process sees it."""

_TICK = 0.1
_STALLED = 30.0
"""Seconds without a new record after which the run is given up."""
_LOG_LINES = 15
_RECORD = struct.Struct("<?Id")

# What workers tell one another takes seconds at the start, and leaves exchanges behind.
_ALONE = ("--without-gossip", "--without-mingle", "--without-heartbeat")


class Setup(NamedTuple):
    """What is asked for.

    Attributes:
        pool: that of both workers; its size is the scenario's slots.
        target: what mails may wait with the fair worker, in place of quanta.
    """

    broker: Broker
    pool: str
    scenario: Scenario
    target: str | None = None


def _order(setup: Setup, fair: bool, trace: Path) -> dict[str, Any]:
    return {
        "broker": setup.broker.url,
        "prefix": setup.broker.prefix,
        "trace": str(trace),
        "seconds": setup.scenario.seconds,
        "slots": setup.scenario.slots,
        "fair": fair,
        "target": setup.target,
        "command": os.getpid(),  # for which the worker works
    }


class TraceWriter:
    """Notes what happens, from many processes and threads for one reader.

    A record is one `write` of a few bytes on a descriptor opened with O_APPEND. So records never
    interleave, their order is the order of the writes, and what a killed process wrote stays.
    """

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND)

    def write(self, is_start: bool, number: int) -> None:
        """Note what happens to a message now: that its task starts, or that it is published."""
        os.write(self._file, _RECORD.pack(is_start, number, monotonic()))


def new_records(trace: BinaryIO) -> list[Record]:
    """Return what was noted since the last time, whole records only."""
    new = trace.read()
    torn = len(new) % _RECORD.size
    trace.seek(-torn, os.SEEK_CUR)
    return [Record(*fields) for fields in _RECORD.iter_unpack(new[: len(new) - torn])]


@contextmanager
def watched(setup: Setup, fair: bool) -> Iterator[Iterator[list[Record]]]:
    """Run a worker for the time of the block; nothing of it stays, not even after Ctrl-C.

    Gives all its records so far, again and again as they grow; raises `DemoError` if the worker
    has ended, or does nothing any more.
    """
    with tempfile.TemporaryDirectory(prefix="fair-demo-") as folder:
        trace, output = Path(folder, "trace"), Path(folder, "worker.log")
        with trace.open("x+b", buffering=0) as records, output.open("wb") as written:
            process = subprocess.Popen(  # noqa: S603 - this interpreter, checked options
                [
                    *(sys.executable, "-m", "celery", "-A", "celery_fair.cli.demo.tasks", "worker"),
                    *("-n", "fair-demo@%h", "-P", setup.pool),
                    *("-c", str(setup.scenario.slots), *_ALONE),
                ],
                env=os.environ | {ORDER_VARIABLE: json.dumps(_order(setup, fair, trace))},
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=written,
                start_new_session=True,  # Ctrl-C is for the command, which then stops the worker
            )
            try:
                yield _growing(process, records, output)
            finally:
                with uninterrupted():
                    _stop(process)
                    setup.broker.clean()


def _growing(
    process: "subprocess.Popen[bytes]", trace: BinaryIO, output: Path
) -> Iterator[list[Record]]:
    records = list[Record]()
    last_news = monotonic()
    while True:
        with suppress(subprocess.TimeoutExpired):
            status = process.wait(_TICK)
            raise DemoError(
                f"the worker ended early, with status {status}. Its log:\n{_end_of(output)}"
            )
        if news := new_records(trace):
            last_news = monotonic()
        elif monotonic() - last_news > _STALLED:
            raise DemoError(
                f"nothing has happened for {_STALLED:g} s, after {len(records)} messages were"
                f" published or started. The worker's log:\n{_end_of(output)}"
            )
        records += news
        yield records


def _end_of(output: Path) -> str:
    return "\n".join(output.read_text(errors="replace").splitlines()[-_LOG_LINES:])


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """Return when nothing is left of it; nobody needs what it still holds."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
