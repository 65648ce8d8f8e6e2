"""What a feed is given when it is made, for tests that make one without a worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from celery_fair.core.gate import Gate
from celery_fair.core.parking import Parking
from celery_fair.settings import QueueOptions
from celery_fair.worker.queues.feed import Feed, Ports


class Report:
    """A feed's `Reports`, told to a function."""

    def __init__(self, told: Callable[[Feed], object]) -> None:
        self.arrived = told
        self.wake_up = SimpleNamespace(soon=lambda: None)

    def due(self, feed: Feed, request: Any) -> None:
        raise AssertionError(f"nothing is put off here, {request} neither")

    def withdraw(self, feed: Feed) -> list[Any]:
        return []


class Custody:
    """Messages go back as Celery's do; none is refused."""

    def starts_once(self, message: Any) -> bool:
        return False

    def give_back(self, messages: Sequence[Any]) -> None:
        for message in messages:
            message.requeue()

    def refuse(self, message: Any, exc: BaseException | None) -> None:
        raise AssertionError(f"{message} is refused: {exc}")

    def worker_lost(self, message: Any) -> None:
        raise AssertionError(f"the process of {message} has died")

    def garbage(self, feed: Feed, raw: bytes, reason: Exception) -> None:
        raise AssertionError(f"no message: {raw!r}: {reason}")


class Recovery:
    """Queues that the broker takes away, told to a function."""

    def __init__(
        self, told: Callable[[Feed], object], told_of_close: Callable[[Feed], object]
    ) -> None:
        self.lost = told
        self._told_of_close = told_of_close

    def closed(self, feed: Feed, reason: Exception) -> None:
        feed.die()
        self._told_of_close(feed)

    def refused(self, feed: Feed, answer: Exception) -> None:
        raise answer

    def ended(self, feed: Feed) -> None:
        feed.close()


def ports(
    arrived: Callable[[Feed], object] = lambda feed: None,
    lost: Callable[[Feed], object] = lambda feed: None,
    closed: Callable[[Feed], object] = lambda feed: None,
) -> Ports:
    """Whom a feed knows."""
    reports: Any = Report(arrived)
    return Ports(reports, Custody(), Recovery(lost, closed), Parking(None, lambda: None))


def gate(quantum: float = 1.0, **options: Any) -> Gate[QueueOptions]:
    """An open one, of a queue with such options."""
    return Gate(QueueOptions(quantum, **options), None)
