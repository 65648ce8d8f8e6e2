"""Signals in the middle of a record: their handlers' records come next; nobody waits for ever."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from celery_fair.eventlog import EventLog, Policy, writer
from celery_fair.eventlog.log_file import LogFile
from tests.brokers import Space
from tests.eventlog.reading import processes, records
from tests.eventlog.test_worker import gate, settings
from tests.integration.gate import Gate
from tests.publishing import publish
from tests.waiting import wait_for
from tests.workers import StartWorker

__all__ = ["gate"]

FORK = multiprocessing.get_context("fork")


class Interrupted:
    """A log whose first record is interrupted by a signal, when half of it is done."""

    def __init__(self, folder: Path, handler: Callable[[EventLog], object]) -> None:
        self.log = EventLog(Policy(folder), "worker@host")
        self.when = LogFile.append
        signal.signal(signal.SIGUSR1, lambda *_: handler(self.log))

    def write(self, after: bool) -> None:
        """Write a record, with the signal after its line or before it, and another record."""

        def append(file: LogFile, line: bytes, sync: bool = False) -> None:
            LogFile.append = self.when  # type: ignore[method-assign]
            if after:
                file.append(line, sync)
            signal.raise_signal(signal.SIGUSR1)
            if not after:
                file.append(line, sync)

        LogFile.append = append  # type: ignore[method-assign]
        with suppress(SystemExit):
            self.log.record("queue", {"queue": "outer"})
        self.log.record("queue", {"queue": "last"})
        self.log.close()


def run(folder: Path, handler: Callable[[EventLog], object], after: bool) -> None:
    """In a process of its own: a deadlock is one of a main thread."""
    process = FORK.Process(target=lambda: Interrupted(folder, handler).write(after))
    process.start()
    process.join(60)
    ended = process.exitcode
    process.kill()
    assert ended == 0


def said(folder: Path) -> list[tuple[int, str]]:
    (found,) = processes(folder).values()
    return [(record["seq"], record["queue"]) for record in found]


@pytest.mark.parametrize("after", [False, True])
def test_a_handler_records_and_closes(tmp_path: Path, after: bool) -> None:
    def handler(log: EventLog) -> None:
        log.record("queue", {"queue": "first of the handler"})
        log.record("queue", {"queue": "second of the handler"})
        log.close()

    run(tmp_path, handler, after)
    expected = ["outer", "first of the handler", "second of the handler", "last"]
    assert said(tmp_path) == list(enumerate(expected))
    assert [record["queue"] for record in records(tmp_path)] == expected
    assert len(list(tmp_path.rglob("*.jsonl"))) == 2


@pytest.mark.parametrize("after", [False, True])
def test_a_handler_ends_the_process(tmp_path: Path, after: bool) -> None:
    """A record that may not be written is missing by its number, and the log goes on."""

    def handler(log: EventLog) -> None:
        log.record("queue", {"queue": "handler"})
        raise SystemExit

    run(tmp_path, handler, after)
    assert said(tmp_path) == [(0, "outer")] * after + [(1, "handler"), (2, "last")]


def test_a_handler_waits_for_another_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_PATIENCE", 0.05)

    def handler(log: EventLog) -> None:
        thread = Thread(target=lambda: log.record("queue", {"queue": "thread"}))
        thread.start()
        thread.join()
        log.record("queue", {"queue": "handler"})

    run(tmp_path, handler, after=False)
    assert said(tmp_path) == list(enumerate(["outer", "thread", "handler", "last"]))


COLD = """
import os, signal
from celery_fair.eventlog.log_file import LogFile
from tests.apps.once import *

append = LogFile.append

def append_and_stop(file, line, sync=False):
    append(file, line, sync)
    if b'"state":"throttled"' in line:
        LogFile.append = append
        signal.raise_signal(signal.SIGQUIT)

LogFile.append = append_and_stop
"""


@pytest.mark.either_broker
@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_a_cold_shutdown_in_a_record(
    space: Space, start_worker: StartWorker, gate: Gate, tmp_path: Path, pool: str
) -> None:
    """It waits for the pool, whose tasks have ends to write down."""
    log = tmp_path / "log"
    options: dict[str, Any] = {"concurrency": 2, "queues": ["a"], "conf": settings(log)}
    worker = start_worker(space, app=COLD, pool=pool, **options)
    sent = publish(space.url, {"a": 2}, "plain", [str(gate.path)]).all()
    worker.records.started.wait_ids(sent)
    assert "ok" in worker.control("fair_pause", queue="a")
    wait_for(lambda: "Ctrl+C" in worker.log(), 60, worker.log)
    gate.open()
    worker.wait(60)
    first = min(records(log, "started"), key=lambda record: record["at"])
    assert first["id"] in sent
    assert first["id"] in {record["id"] for record in records(log, "finished")}
    for process, found in processes(log).items():
        assert [record["seq"] for record in found] == list(range(len(found))), process
