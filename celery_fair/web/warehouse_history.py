"""Looks into a warehouse for the page of past days.

What is published never changes, so what was read of a version is kept. It is known by its folders,
whose names are made up at random: the number alone comes again when a warehouse is made anew. A
version before the last one may be removed while it is read: then the present one is.
"""

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import time

from celery_fair.pipeline.errors import PipelineError
from celery_fair.pipeline.warehouse import read_pointer
from celery_fair.web.past import Past, Span, read_past
from celery_fair.web.reads import BusyError, Reads

__all__ = ["WarehouseHistory"]

logger = logging.getLogger(__name__)

_Key = tuple[int, frozenset[str], Span]

_POINTS = 2_500_000
"""Of queues' lines that are kept; some 300 MB."""


class WarehouseHistory:
    """Reads when it is asked; all of it from any thread.

    Times until now are read and kept apart from others: however many of those somebody asks for,
    who looks at the last day has it.

    Arguments:
        folder: the warehouse.
        clock: seconds since 1970.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time) -> None:
        self.folder = folder
        self._clock = clock
        self._last: Reads[_Key, Past] = Reads(8, _POINTS, _points)
        self._earlier: Reads[_Key, Past] = Reads(32, _POINTS, _points)
        self._failed = ""

    def look(self, span: Span) -> Past:
        """Return what the present version says of a time; when that ends is rounded up."""
        try:
            return self._looked(span.rounded())
        except BusyError:
            return Past(trouble="Others' times are being read first: ask again in a moment.")
        except PipelineError as exc:
            return Past(trouble=str(exc))
        except Exception as exc:  # whatever is there, the next version may be better
            why = str(exc).partition("\n")[0] or type(exc).__name__
            if why != self._failed:  # who looks on asks each second
                logger.exception("The warehouse %s cannot be read", self.folder)
                self._failed = why
            return Past(trouble=f"{self.folder} cannot be read: {why}; this server's log has more")

    def _looked(self, span: Span) -> Past:
        reads = self._last if span.until is None else self._earlier
        for last in (False, True):
            pointer = read_pointer(self.folder)
            key = pointer.version, frozenset(pointer.folders), span
            read = partial(read_past, self.folder, pointer, span, self._clock())
            try:
                return reads.get(key, read)
            except FileNotFoundError as exc:
                if last:
                    raise PipelineError(
                        f"{exc.filename or exc} is gone, which version {pointer.version} of the"
                        " warehouse names: was something removed? `pipeline ingest` into a new"
                        " folder makes it anew"
                    ) from exc
        raise AssertionError("the last attempt returns or raises")


def _points(past: Past) -> int:
    return len(past.times) * len(past.queues)
