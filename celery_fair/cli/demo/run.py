"""One workload from its start to its shares."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import monotonic

from celery_fair.cli.demo.broker import Broker
from celery_fair.cli.demo.child import Child, worker_process
from celery_fair.cli.demo.errors import DemoError
from celery_fair.cli.demo.order import Order
from celery_fair.cli.demo.shares import Shares
from celery_fair.cli.demo.tape import Record, TapeReader
from celery_fair.cli.demo.workload import Workload
from celery_fair.cli.interrupt import uninterrupted

__all__ = ["Progress", "Result", "Setup", "run"]

_STALLED = 30.0
"""Seconds without a new record after which the run is given up."""


@dataclass(frozen=True)
class Setup:
    """What the runs of one command have in common."""

    broker: Broker
    pool: str
    concurrency: int
    event_log: Path | None = None


@dataclass(frozen=True)
class Progress:
    """How far a run has come: messages published, tasks started, and their shares so far."""

    workload: Workload
    published: int
    started: int
    shares: Shares


@dataclass(frozen=True)
class Result:
    """A run that came to its end: the starts up to the stop, in their order."""

    workload: Workload
    starts: list[Record]

    @cached_property
    def shares(self) -> Shares:
        """The shares, after the first windows have filled."""
        return Shares.of(self.starts[self.workload.warm_up :])

    @property
    def seconds(self) -> float:
        """From the first start to the last."""
        return self.starts[-1][1] - self.starts[0][1]

    @property
    def rate(self) -> float:
        """Starts per second."""
        return len(self.starts) / self.seconds if self.seconds > 0 else 0.0


def run(setup: Setup, workload: Workload, report: Callable[[Progress], object]) -> Result:
    """Publish, consume until the stop, and clean up, also after an error or Ctrl-C."""
    broker, log = setup.broker, setup.event_log
    with tempfile.TemporaryDirectory(prefix="fair-demo-") as folder, _cleaning(broker):
        order = Order(
            folder,
            broker.url,
            broker.prefix,
            workload.messages,
            workload.work,
            None if log is None else str(log),
        )
        order.write()
        with worker_process(order, setup.pool, setup.concurrency) as child:
            return _watch(child, order, workload, report)


def _watch(
    child: Child, order: Order, workload: Workload, report: Callable[[Progress], object]
) -> Result:
    published, started = TapeReader(order.published), TapeReader(order.started)
    count, starts = 0, list[Record]()
    last_news = monotonic()
    while len(starts) < workload.stop:
        child.tick()
        news = published.read(), started.read()
        if any(news):
            last_news = monotonic()
        elif monotonic() - last_news > _STALLED:
            raise DemoError(
                f"nothing has happened for {_STALLED:g} s, after {count} messages published and"
                f" {len(starts)} tasks started. The worker's log:\n{child.log()}"
            )
        count += len(news[0])
        starts += news[1]
        report(_progress(workload, count, starts[: workload.stop]))
    return Result(workload, starts[: workload.stop])


def _progress(workload: Workload, published: int, starts: list[Record]) -> Progress:
    measured = starts[workload.warm_up :] or starts
    return Progress(workload, published, len(starts), Shares.of(measured))


@contextmanager
def _cleaning(broker: Broker) -> Iterator[None]:
    try:
        yield
    finally:
        with uninterrupted():
            broker.clean()
