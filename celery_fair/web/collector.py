"""The thread that asks the workers, for all who look.

It asks once a second while somebody looks, and every ten seconds otherwise, so that there are lines
to see when somebody comes. Workers with very many queues are asked less often, so that none is
asked for more than 400 rows a second; and where the answers take long to take in, from very many
workers, it rests for as long as they took: it never takes more than half of a processor.
"""

import asyncio
import logging
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from threading import Condition, Thread
from time import monotonic, time
from typing import Any

from celery_fair.brokers.depths import Depths
from celery_fair.operate.answers import Answers
from celery_fair.operate.errors import NoAnswerError
from celery_fair.web.snapshot import Rows, Snapshot


class History:
    """The last ticks: of each its time, in seconds since 1970, and `FIGURES` of each queue.

    One thread adds to it; all else from any thread.
    """

    def __init__(self) -> None:
        self.ticks: deque[tuple[float, dict[str, array[float]]]] = deque(maxlen=_TICKS)

    def lines(
        self, queues: Iterable[str], figures: Sequence[str], which: slice = slice(None)
    ) -> dict[str, Any]:
        """Return times, and each queue's figures in turn, as JSON has them.

        Arguments:
            which: of the ticks.
        """
        ticks = list(self.ticks)[which]
        places = [FIGURES.index(figure) for figure in figures]
        rows = [[rows.get(queue) for _, rows in ticks] for queue in queues]
        lines = [[_rounded(row, at) for row in each] for each in rows for at in places]
        return {"times": [time for time, _ in ticks], "figures": figures, "lines": lines}


def _rounded(row: "array[float] | None", at: int) -> float | None:
    return None if row is None else float(f"{row[at]:.4g}")


logger = logging.getLogger(__name__)

FIGURES: tuple[str, ...] = ("share", "target_share", "backlog", "waiting_seconds", "per_second")
_FIGURES_OF = itemgetter(*FIGURES)

_TICKS = 600
_MOST = 1000
"""Queues that have lines, at the most: each takes some hundred bytes a tick."""

_IDLE = 10.0
"""Seconds between two questions while nobody looks."""

_INTEREST = 15.0
"""Seconds that somebody who has looked is thought to look still."""

_ROWS = 400
"""Rows that a worker is asked for a second, at the most."""

_GLANCE = 0.1
"""Seconds after which who waits for newer answers looks again whether they are there."""

_FIRST = 5.0
"""Seconds that a first page waits for the first answers, at the most."""

_FORGOTTEN = 120.0
"""Seconds for which a worker that answers no more is still named."""


class Collector:
    """Asks until it is closed, from `start` on. `look` from any thread.

    Arguments:
        ask: asks the workers for their status; raises `NoAnswerError`.
        depths: is told which queues there are.
        every: seconds between two questions, at the least.
    """

    def __init__(self, ask: Callable[[], Answers], depths: Depths, every: float = 1.0) -> None:
        self.history = History()
        self._ask = ask
        self._depths = depths
        self._every = every
        self._latest = Snapshot()
        self._looked = -_INTEREST
        self._changed = Condition()
        self._closed = False
        self._seen: dict[str, float] = {}
        self._thread = Thread(target=self._run, name="collector", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._depths.start()
        self._thread.start()

    def close(self) -> None:
        """Ask no more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._depths.close()

    def look(self) -> Snapshot:
        """Return the last answers, or wait a while for the first."""
        with self._changed:
            self._looked = monotonic()
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._latest.number or self._closed, _FIRST)
            return self._latest

    async def after(self, number: int) -> Snapshot:
        """Wait for newer answers than those of that number."""
        while self._latest.number <= number:
            self._looked = monotonic()
            await asyncio.sleep(_GLANCE)
        return self._latest

    def take(self) -> Snapshot:
        """Ask once, and keep what is answered."""
        began, nobody = time(), Answers()
        try:
            snapshot = self._taken(began, self._ask())
        except NoAnswerError as exc:
            snapshot = self._taken(began, nobody, str(exc))
        except Exception as exc:  # of any transport, or as an answer is none: the next may be
            logger.exception("The workers could not be asked, or their answers not be read")
            trouble = f"{type(exc).__name__}; this server's log has more"
            snapshot = self._taken(began, nobody, trouble)
        with self._changed:
            self._latest = snapshot
            self._changed.notify_all()
        return snapshot

    def _taken(self, began: float, answers: Answers, trouble: str = "") -> Snapshot:
        workers: Mapping[str, Rows] = answers.good
        seen = self._seen | dict.fromkeys(workers, began)
        self._seen = {w: at for w, at in seen.items() if began - at < _FORGOTTEN}
        queues = {queue for rows in workers.values() for queue in rows}
        self._depths.ask_about(queues)
        depths = ((queue, self._depths.of(queue)) for queue in queues)
        snapshot = Snapshot(
            number=self._latest.number + 1,
            time=began,
            workers=workers,
            notes=answers.notes,
            others=answers.others,
            errors=answers.errors,
            silent={w: at for w, at in self._seen.items() if w not in workers},
            trouble=trouble,
            depths={queue: depth.messages for queue, depth in depths if depth is not None},
        )
        self._draw(snapshot)
        return snapshot

    def _draw(self, snapshot: Snapshot) -> None:
        drawn = islice(snapshot.queues.items(), _MOST)
        rows = {name: array("f", _FIGURES_OF(queue)) for name, queue in drawn}
        self.history.ticks.append((round(snapshot.time, 1), rows))

    def _run(self) -> None:
        while not self._closed:
            began = monotonic()
            self.take()
            took = monotonic() - began
            most = max(map(len, self._latest.workers.values()), default=0)
            pause = self._every * max(1.0, most / _ROWS)
            with self._changed:
                self._changed.wait_for(lambda: self._closed, max(pause - took, took))
                while not self._is_wanted() and monotonic() - began < _IDLE and not self._closed:
                    self._changed.wait(1.0)

    def _is_wanted(self) -> bool:
        return monotonic() - self._looked < _INTEREST
