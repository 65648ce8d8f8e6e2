"""Output line by line: for pipes and files, and without rich."""

from collections.abc import Callable, Sequence

from celery_fair.cli.columns import aligned
from celery_fair.cli.demo import table
from celery_fair.cli.demo.run import Progress, Result, Setup
from celery_fair.cli.demo.workload import Workload

__all__ = ["PlainScreen"]

_STEPS = 4
"""Progress lines for what is published, and again for what is consumed."""


class PlainScreen:
    """Writes lines of text, without control characters.

    Arguments:
        write: takes one line, without its end.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._shown = (0, 0)

    def introduce(self, setup: Setup, messages: int) -> None:
        """Say what is about to be done."""
        self._write(table.introduction(setup, messages))

    def begin(self, workload: Workload) -> None:
        """Begin a run."""
        self._shown = (0, 0)
        self._write("")
        self._write(table.title(workload))

    def progress(self, progress: Progress) -> None:
        """Say how far the run has come, a few times."""
        workload = progress.workload
        steps = (
            _STEPS * progress.published // workload.published,
            _STEPS * progress.started // workload.stop,
        )
        if steps[0] > self._shown[0]:
            self._write(f"  published {progress.published:,} of {workload.published:,}")
        if steps[1] > self._shown[1]:
            self._write(f"  started {progress.started:,} of {workload.stop:,}")
        self._shown = steps

    def end(self, result: Result) -> None:
        """Show a run's figures."""
        workload, shares = result.workload, result.shares
        for rows in (
            [table.headings(workload), *table.rows(workload, shares)],
            table.comparison(workload, shares, result.rate),
        ):
            self._write("")
            for line in aligned(rows):
                self._write(f"  {line}")

    def close(self) -> None:
        """Nothing is held."""

    def conclude(self, results: Sequence[Result]) -> None:
        """Give the verdict."""
        self._write("")
        self._write(table.NOTE)
        self._write("")
        for result in results:
            self._write(table.verdict(result))
