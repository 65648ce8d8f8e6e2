"""Ctrl-C, SIGTERM and a closed terminal: they end a run at any time, and never its cleaning up."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import click


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM and SIGHUP do what Ctrl-C does: raise `KeyboardInterrupt`.

    A SIGHUP that is ignored already, as after ``nohup``, stays so.
    """
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    ends = (signal.SIGTERM,) if ignored else (signal.SIGTERM, signal.SIGHUP)
    with _handled(ends, _interrupt):
        yield


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ignore them all for the time of the block, which is to be short."""
    with _handled((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), signal.SIG_IGN):
        yield


@contextmanager
def stoppable() -> Iterator[Callable[[], bool]]:
    """Give what says whether to stop; a second Ctrl-C or SIGTERM raises `KeyboardInterrupt`."""
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            _interrupt(number, frame)
        asked = True

    with _handled((signal.SIGINT, signal.SIGTERM), ask):
        yield lambda: asked


@contextmanager
def in_steps(
    label: str, count: int
) -> Iterator[tuple[Callable[[], bool], Callable[[int], object]]]:
    """Give what says whether to stop, as `stoppable`, and what is told how many steps were done.

    That is shown on standard error, where that is a terminal.
    """
    with stoppable() as stop:
        if not sys.stderr.isatty():
            yield stop, lambda _: None
            return
        with click.progressbar(length=count, label=label, file=sys.stderr) as bar:
            yield stop, bar.update


@contextmanager
def _handled(numbers: tuple[signal.Signals, ...], handler: Any) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
