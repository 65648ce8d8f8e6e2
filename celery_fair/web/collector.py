"""The thread that asks the workers, for all who look.

It asks once a second while somebody looks, and every ten seconds otherwise, so that there are lines
to see when somebody comes. Workers with very many queues are asked less often, so that none is
asked for more than 400 rows a second; and where the answers take long to take in, from very many
workers, it rests for as long as they took: it never takes more than half of a processor.
"""

import asyncio
import gc
import logging
from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from math import nan
from operator import attrgetter
from threading import Condition, Thread
from time import monotonic, time

from celery_fair.brokers.depths import Depths
from celery_fair.cli.live.answers import Answers, NoAnswer
from celery_fair.web.history import History, Tick
from celery_fair.web.snapshot import Earlier, Rows, Snapshot

__all__ = ["FIGURES", "Collector"]

logger = logging.getLogger(__name__)

FIGURES: tuple[str, ...] = ("share", "target", "backlog", "oldest", "per_second", "median", "p95")
_FIGURES_OF = attrgetter(*FIGURES)

_TICKS = 600
_MOST = 1000
"""Queues that have lines, at the most: each takes some hundred bytes a tick."""

_IDLE = 10.0
"""Seconds between two questions while nobody looks."""

_INTEREST = 15.0
"""Seconds that somebody who has looked is thought to look still."""

_ROWS = 400
"""Rows that a worker is asked for a second, at the most."""

_FIRST = 5.0
"""Seconds that a first page waits for the first answers, at the most."""

_COMPARED = 5.0
"""Seconds over which starts are counted, at the least; twice that at the most."""

_FORGOTTEN = 120.0
"""Seconds for which a worker that answers no more is still named."""


class Collector:
    """Asks until it is closed, from `start` on. `look` from any thread.

    Arguments:
        ask: asks the workers for their status; raises `NoAnswer`.
        depths: is told which queues there are.
        every: seconds between two questions, at the least.
    """

    def __init__(self, ask: Callable[[], Answers], depths: Depths, every: float = 1.0) -> None:
        self.history = History(_figure, _TICKS)
        self._ask = ask
        self._depths = depths
        self._every = every
        self._latest = Snapshot()
        self._looked = -_INTEREST
        self._changed = Condition()
        self._closed = False
        self._seen: dict[str, float] = {}
        self._earlier: list[Earlier] = []
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
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
        event = asyncio.Event()
        waiter = (asyncio.get_running_loop(), event)
        with self._changed:
            self._looked = monotonic()
            self._waiting.add(waiter)
            self._changed.notify_all()
        try:
            while self._latest.number <= number:
                await event.wait()
                event.clear()
        finally:
            with self._changed:
                self._waiting.discard(waiter)
        return self._latest

    def take(self) -> Snapshot:
        """Ask once, and keep what is answered."""
        began = time()
        try:
            with _uncollected():
                snapshot = self._taken(began, self._ask())
        except NoAnswer as exc:
            snapshot = self._without(began, exc.message)
        except Exception as exc:  # of any transport, or as an answer is none: the next may be
            logger.exception("The workers could not be asked, or their answers not be read")
            snapshot = self._without(began, f"{type(exc).__name__}; this server's log has more")
        with self._changed:
            self._latest = snapshot
            self._changed.notify_all()
            for loop, event in self._waiting:
                with suppress(RuntimeError):  # the server has ended meanwhile
                    loop.call_soon_threadsafe(event.set)
        return snapshot

    def _taken(self, began: float, answers: Answers) -> Snapshot:
        workers: Mapping[str, Rows] = answers.good
        seen = self._seen | dict.fromkeys(workers, began)
        self._seen = {w: at for w, at in seen.items() if began - at < _FORGOTTEN}
        snapshot = Snapshot(
            number=self._latest.number + 1,
            time=began,
            workers=workers,
            notes=answers.notes,
            others=answers.others,
            errors=answers.errors,
            silent=self._silent(workers),
            depths=self._depths_of({queue for rows in workers.values() for queue in rows}),
            earlier=self._earlier[0] if self._earlier else None,
        )
        self._draw(snapshot)
        self._remember(snapshot)
        return snapshot.packed()

    def _without(self, began: float, trouble: str) -> Snapshot:
        number, silent = self._latest.number + 1, self._silent({})
        snapshot = Snapshot(number=number, time=began, silent=silent, trouble=trouble)
        self._draw(snapshot)
        return snapshot

    def _draw(self, snapshot: Snapshot) -> None:
        drawn = islice(snapshot.queues.items(), _MOST)
        rows = {name: array("f", map(_or_nan, _FIGURES_OF(queue))) for name, queue in drawn}
        self.history.ticks.append(Tick(round(snapshot.time, 1), rows))

    def _silent(self, workers: Mapping[str, Rows]) -> dict[str, float]:
        return {worker: at for worker, at in self._seen.items() if worker not in workers}

    def _depths_of(self, queues: set[str]) -> dict[str, int]:
        self._depths.ask_about(queues)
        found = ((queue, self._depths.of(queue)) for queue in queues)
        return {queue: depth.messages for queue, depth in found if depth is not None}

    def _remember(self, snapshot: Snapshot) -> None:
        """Keep two earlier counts: the older is compared with until the newer is old enough."""
        if not self._earlier or snapshot.time - self._earlier[-1].time >= _COMPARED:
            self._earlier = [
                *self._earlier[-1:],
                Earlier.of(snapshot.time, snapshot.workers),
            ]

    def _run(self) -> None:
        while not self._closed:
            began = monotonic()
            self.take()
            took = monotonic() - began
            with self._changed:
                self._changed.wait_for(lambda: self._closed, max(self._pause - took, took))
                while not self._is_wanted() and monotonic() - began < _IDLE and not self._closed:
                    self._changed.wait(1.0)

    @property
    def _pause(self) -> float:
        """Seconds from one question to the next."""
        most = max(map(len, self._latest.workers.values()), default=0)
        return max(self._every, most / _ROWS * self._every)

    def _is_wanted(self) -> bool:
        return bool(self._waiting) or monotonic() - self._looked < _INTEREST


def _figure(tick: Tick, queue: str, figure: str) -> float | None:
    row = tick.rows.get(queue)
    return None if row is None else row[FIGURES.index(figure)]


def _or_nan(value: float | None) -> float:
    return nan if value is None else value


@contextmanager
def _uncollected() -> Iterator[None]:
    """Have no garbage collected meanwhile.

    Answers of many workers are hundreds of thousands of objects, which last for a second and refer
    to each other in no circle. Looking for one among them would hold up every page (see `Packed`).
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
