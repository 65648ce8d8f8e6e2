"""Which lanes of a queue have messages, and a front that has become deep; see `brokers.lanes`.

A thread looks, on a connection of its own: a worker is not to wait for hundreds of answers. At the
start it looks into all lanes, then into `_LOOKS` a second, one after the other: a lane that has got
its first message is found within lanes / `_LOOKS` seconds, and what passes between two looks:
`_EVERY`, or `_SELDOM` if there are many, and `_AT_ONCE` besides while a front is sorted. A look is
one question, as each costs the broker about as much as some lanes in it.

If a flood has come into the front all the same, of publishers without this library say, the thread
sorts it: each message is moved to a lane of its key. The one that is on its way when the worker is
killed is delivered again.
"""

import logging
import math
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from threading import Event, Thread
from time import monotonic
from typing import Any

from amqp import AccessRefused

from celery_fair.brokers.amqp_mover import AmqpMover
from celery_fair.brokers.lanes import LaneChooser, Lanes, lane_name, register
from celery_fair.brokers.mover import NotTakenError
from celery_fair.core.keys.fair_key import read_key
from celery_fair.core.keys.lanes import Key, Rounds
from celery_fair.headers import FAIR_KEY

logger = logging.getLogger(__name__)

_EVERY = 0.25
"""Seconds between two looks."""

_MANY, _SELDOM = 256, 0.5
"""Of more lanes, the seconds: most of the time until a message is found is the lanes' by then."""

_LOOKS = 64
"""Lanes that are looked into in a second."""

_BUSY = 10.0
"""Seconds for which a lane is looked into each time, after it had something."""

_FEWEST = 8
"""Lanes that there are at least, if there may be."""

_SPARES = 8
"""Lanes for keys that are to wait that are added with one look, at the most."""

_DEEP = 100
"""Messages in the front from which on it is sorted."""

_AT_ONCE = 1.0
"""Seconds of sorting, before lanes are looked into again."""

_REST = 300.0
"""Seconds without sorting, after a message had no lane: queues drop what is returned too often."""

_GOODBYE = 5.0
"""Seconds that the worker waits for the thread's end, at the most."""


def whose(message: Any) -> Key:
    """Return the tenant and the part whose message it is."""
    headers = message.headers
    return read_key(headers.get(FAIR_KEY) if isinstance(headers, dict) else None)


class LaneWatch:
    """Of one queue, while it is consumed.

    Arguments:
        lanes: the queue's, for the thread alone.
        front: the same on another connection, by which the thread takes messages out of the front:
            the broker would have them back whenever `lanes` drops its own.
        mover: moves those; for the thread alone.

    Attributes:
        found: lanes that have messages, by number, to be taken out: how many, and whose, if that is
            known. What is found of one again, while it is there, is not new.
    """

    def __init__(self, lanes: Lanes, front: Lanes, mover: AmqpMover) -> None:
        self._lanes = lanes
        self._front = front
        self._queue = lanes.queue
        self._mover = mover
        self._chooser = LaneChooser(lanes)
        self.found: dict[int, tuple[int, Key | None]] = {}
        self._empty: dict[int, None] = {}  # lanes that had nothing, those found last at the end
        self._spare: dict[int, None] = {}  # the same, of those for keys that are to wait
        self._held: Any = None  # a message that is being sorted
        self._rests_until = 0.0  # none is until then
        self._busy: dict[int, float] = {}  # lanes that had something, and until when they count
        self._rounds: Rounds | None = None  # there is none until all were looked into
        self._wanted = False  # whether a lane was asked for, and none known that is empty
        self._wanted_spares = 0  # how many of those are
        self._warned = False  # that there may be no lanes
        self._tell: Callable[[], object] = lambda: None
        self._stopped = Event()
        self._thread: Thread | None = None

    def start(self, tell: Callable[[], object]) -> None:
        """Look from now on, and call this, on the thread, when something was found."""
        if self._thread is None:
            self._tell = tell
            self._thread = Thread(target=self._run, name=f"lanes-{self._queue}", daemon=True)
            self._thread.start()

    def stop(self, wait: bool = True) -> None:
        """Look no more; wait, unless told not to, until nothing is being moved."""
        self._stopped.set()
        thread, self._thread = self._thread, None
        if thread is not None and wait:
            thread.join(_GOODBYE)

    def lane_for(self, taken: Collection[int]) -> int | None:
        """Return a lane that is empty, as far as is known, and none of these; None if none is."""
        found = _popped(self._empty, taken)
        self._wanted = self._wanted or found is None
        return found

    def may_be_shared(self, number: int) -> bool:
        """Whether keys may share a lane, as there may be no more of them."""
        return number < self._lanes.most <= self._lanes.count

    def is_spare(self, number: int) -> bool:
        """Whether a lane is for keys that are to wait."""
        return number >= self._lanes.most

    def spare_for(self, taken: Collection[int], wanted: int) -> int | None:
        """Return a lane as `lane_for` does, for a key that is to wait, and shares one.

        Arguments:
            wanted: how many of those will be needed.
        """
        found = _popped(self._spare, taken)
        if found is None:
            self._wanted_spares = wanted
        return found

    def spared(self, number: int) -> None:
        """A lane that was returned is not needed."""
        self._spare[number] = None

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._sort(self._look())
            except Exception as exc:  # noqa: BLE001 - whatever the broker does; tried again
                logger.debug("Cannot look into the lanes of %s: %r", self._queue, exc)
                if isinstance(exc, AccessRefused):
                    self._warn(exc)
                self._lanes.drop()
                self._front.drop()
                self._held = None  # the broker has it back
            self._stopped.wait(_EVERY if self._lanes.count <= _MANY else _SELDOM)
        self._chooser.close()
        self._mover.close()
        self._front.close()

    def _look(self) -> int:
        """Look into lanes whose turn it is; return how many messages the front has."""
        if self._rounds is None:
            self._lanes.recount()
        while self._lanes.count < _FEWEST and self._lanes.add() is not None:
            pass
        if self._wanted:
            self._wanted = False
            if (number := self._lanes.empty()) is not None:
                self._empty[number] = None
        for _ in range(min(self._wanted_spares, _SPARES)):
            if (number := self._lanes.add(beyond=True)) is not None:
                self._spare[number] = None
        self._wanted_spares = 0
        count = self._lanes.count
        if not count:
            self._warn("none is there, and none can be made")
        if self._rounds is None:
            self._take_in(self._lanes.depths(range(count)))
            self._rounds = Rounds(_LOOKS, monotonic())
        due = self._rounds.due(count, monotonic()) if count else []
        front, depths = self._lanes.survey(sorted({*due, *list(self._busy)[-_LOOKS:]}))
        self._take_in(depths)
        self._take_in(self._lanes.depths(range(count, self._lanes.count)))  # added meanwhile
        return front

    def _warn(self, why: object) -> None:
        if not self._warned:
            self._warned = True
            logger.warning(
                "Queue %s: keys that publish in floods have no lanes, and stand before others: %s."
                " Let the broker's user configure, write and read %s.*, and have room for queues",
                self._queue,
                why,
                register(self._queue),
            )

    def _take_in(self, depths: Mapping[int, int]) -> None:
        now = monotonic()
        for number, depth in depths.items():
            if depth:
                self._empty_ones(number).pop(number, None)
                self._busy.pop(number, None)
                self._busy[number] = now + _BUSY
                self.found.setdefault(number, (depth, None))
            else:
                self._empty_ones(number)[number] = None
                if self._busy.get(number, math.inf) < now:
                    del self._busy[number]
        if any(depths.values()):
            self._tell()

    def _empty_ones(self, number: int) -> dict[int, None]:
        return self._empty if number < self._lanes.most else self._spare

    def _sort(self, left: int) -> None:
        """Move what is in a deep front to lanes, where it has so many messages."""
        until = monotonic() + _AT_ONCE
        while self._rests_until <= monotonic() < until and not self._stopped.is_set():
            if self._held is None and left > _DEEP and self._lanes.count:
                left = self._take_one()
            if self._held is None:
                return
            self._put(self._held)

    def _take_one(self) -> int:
        """Take the front's first message, if there is one; return how many are left."""
        raw = self._front.channel.basic_get(self._queue)
        if raw is None:
            return 0
        self._held = self._front.channel.message_to_python(raw)
        return int(raw.delivery_info["message_count"])

    def _put(self, message: Any) -> None:
        """Move a message to its key's lane; or back, to the front's end, and sort none for a while.

        Returned, it would count as one that may have started. So what the broker does not take now
        is kept until it does. Only what must stay is returned (by `_run`).
        """
        tenant, part = whose(message)
        number = self._chooser.lane(f"{tenant}/{part}")
        if number is not None and self._moves(message, lane_name(self._queue, number)):
            self.found.setdefault(number, (1, (tenant, part)))
            self._tell()
        else:
            self._rests_until = monotonic() + _REST
            self._moves(message, self._queue)

    def _moves(self, message: Any, queue: str) -> bool:
        try:
            self._mover.move(message, queue)
        except NotTakenError as exc:
            logger.debug("A message of %s is not sorted: %r", self._queue, exc)
            return False
        self._held = None
        return True


def _popped(lanes: dict[int, None], taken: Collection[int]) -> int | None:
    """Take a lane from those, the last that is none of these; another thread may take some, too."""
    with suppress(KeyError):
        while True:
            number, _ = lanes.popitem()
            if number not in taken:
                return number
    return None
