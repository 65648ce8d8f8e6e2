"""What a run leaves behind: nothing, or it fails and says which test it was.

All that a run and its children write to the temporary folder goes into one folder of the run's own,
which the reaper removes, however the run ends. What each test adds to it must be gone when the last
one is over, and so must each process that has inherited the folder's name. `pymp-` folders are no
fault: a worker's pool shares memory through files, which nobody removes when it is killed.

A run that was ended together with its reaper, as by a loss of power, leaves its folder to the next
one, which removes it, and says so.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from tests.processes import folder, removed
from tests.waiting import wait_for

__all__ = ["LeftBehind"]

_OTHERS = ("pymp-", "pytest-of-")
_CURRENT = "PYTEST_CURRENT_TEST"
_GONE_WITHIN = 10
"""Seconds: what was killed with its group may take a moment."""


class LeftBehind:
    """The plugin that looks."""

    def __init__(self) -> None:
        self._place = folder("t")
        os.environ["TMPDIR"] = tempfile.tempdir = str(self._place)
        self._by: dict[str, str] = {}
        self._ran = False
        self.found: list[str] = []

    def pytest_report_header(self) -> list[str]:
        return [f"removed what an earlier run had left: {path}" for path in removed()]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._ran = True
        try:
            return (yield)
        finally:
            for path in self._place.iterdir():
                self._by.setdefault(path.name, item.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._ran:  # else those that ran them look
            try:
                wait_for(lambda: not self._left(), _GONE_WITHIN, interval=0.5)
            except TimeoutError:
                self.found = self._left()
        if (output := getattr(session.config, "workeroutput", None)) is not None:
            output["left_behind"] = self.found
        elif self.found:
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.found += getattr(node, "workeroutput", {}).get("left_behind", [])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.found:
            terminalreporter.section("left behind", red=True)
            terminalreporter.write_line("\n".join(self.found))

    def _left(self) -> list[str]:
        return [*self._files(), *self._processes()]

    def _files(self) -> Iterator[str]:
        for path in sorted(self._place.iterdir()):
            if not path.name.startswith(_OTHERS):
                yield f"{self._by.get(path.name, 'the end of the run')}: {path}"

    def _processes(self) -> Iterator[str]:
        for process in psutil.process_iter():
            try:
                environment = process.environ()
                if environment.get("TMPDIR") == str(self._place) and process.pid != os.getpid():
                    test = environment.get(_CURRENT, "some test").removesuffix(" (call)")
                    yield f"{test}: process {process.pid}, {' '.join(process.cmdline())}"
            except psutil.Error:  # it has ended, or is somebody else's
                continue
