"""Looks into a warehouse for the page of past days.

What is published never changes, so what was read of a version is kept. It is known by its folders,
whose names are made up at random: the number alone comes again when a warehouse is made anew. A
version before the last one may be removed while it is read: then the present one is.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from time import time

from celery_fair.pipeline.errors import PipelineError
from celery_fair.pipeline.pointer import read_pointer
from celery_fair.web.past import Past, Span, read_past

__all__ = ["WarehouseHistory"]

logger = logging.getLogger(__name__)

_KEPT = 8


class WarehouseHistory:
    """Reads when it is asked; all of it from any thread.

    Arguments:
        folder: the warehouse.
        clock: seconds since 1970.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time) -> None:
        self.folder = folder
        self._clock = clock
        self._known: OrderedDict[tuple[int, frozenset[str], Span], Past] = OrderedDict()
        self._lock = Lock()

    def look(self, span: Span) -> Past:
        """Return what the present version says of a time."""
        with self._lock:
            try:
                return self._looked(span)
            except PipelineError as exc:
                return Past(trouble=str(exc))
            except Exception as exc:  # whatever is there, the next version may be better
                logger.exception("The warehouse %s cannot be read", self.folder)
                told = f"{type(exc).__name__}; this server's log has more"
                return Past(trouble=f"{self.folder} cannot be read: {told}")

    def _looked(self, span: Span) -> Past:
        for last in (False, True):
            pointer = read_pointer(self.folder)
            key = pointer.version, frozenset(pointer.folders), span
            if key not in self._known:
                try:
                    self._known[key] = read_past(self.folder, pointer, span, self._clock())
                except FileNotFoundError as exc:
                    if last:
                        raise PipelineError(
                            f"{exc.filename or exc} is gone, which version {pointer.version} of the"
                            " warehouse names: was something removed? `pipeline ingest` into a new"
                            " folder makes it anew"
                        ) from exc
                    continue
            self._known.move_to_end(key)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
            return self._known[key]
        raise AssertionError("the last attempt returns or raises")
