"""What has arrived, and what has come due, until the dispatcher takes it in."""

from collections import deque
from collections.abc import Iterator
from typing import Any

from celery_fair.worker.wake_up import WakeUp


class Reports:
    """One a connection, as the queues that report here are.

    Arguments:
        wake_up: asked for each report.
    """

    def __init__(self, wake_up: WakeUp) -> None:
        self.wake_up = wake_up
        self._reports: deque[tuple[Any, Any]] = deque()

    def __bool__(self) -> bool:
        return bool(self._reports)

    def arrived(self, feed: Any) -> None:
        """Something new is in the feed's buffer."""
        self._reports.append((feed, None))
        self.wake_up.arrived()

    def due(self, feed: Any, request: Any) -> None:
        """A request of the feed's that Celery had put off has come due."""
        self._reports.append((feed, request))
        self.wake_up.arrived()
        self.wake_up.later()

    def withdraw(self, feed: Any) -> list[Any]:
        """Take back, and return, the feed's requests that have come due."""
        theirs = [report for report in self._reports if report[0] is feed and report[1] is not None]
        for report in theirs:
            self._reports.remove(report)
        return [request for _, request in theirs]

    def take(self) -> Iterator[tuple[Any, Any]]:
        """Yield what was reported, the oldest first: the feed, and a request that has come due."""
        reports = self._reports
        while reports:
            yield reports.popleft()
